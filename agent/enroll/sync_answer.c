/* SPDX-License-Identifier: Apache-2.0 */
#include "sync_answer.h"

#include "finding.h"
#include "utf8.h"

void sync_answer_clear(struct sync_answer *a) {
        json_decref(a->records);
        *a = SYNC_ANSWER_NULL;
}

#define bad(why, ...) (finding_format((why), SYNC_WHY_MAX, __VA_ARGS__), -EBADMSG)

static bool printable(const char *text, size_t max) {
        size_t n = strlen(text);

        for (size_t i = 0; i < n; i++)
                if (text[i] < ' ' || text[i] > '~')
                        return false;
        return n <= max;
}

/* "slice/s0", "run/train": only kinds that a host receives; what is new in a later version is passed
 * over. */
static bool key_is_ours(const char *key) {
        static const char *const kinds[] = { "slice/", "run/", "order/", "site/", "capture/", "pairs/" };

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                if (startswith(key, kinds[i]) && key[strlen(kinds[i])])
                        return true;
        return false;
}

static int take_records(json_t *from, struct sync_answer *a, char why[static SYNC_WHY_MAX]) {
        const char *key;
        json_t *value;

        a->records = json_object();
        if (!a->records)
                return -ENOMEM;
        if (from && !json_is_object(from))
                return bad(why, "records is no object");
        json_object_foreach(from, key, value) {
                if (!printable(key, REGISTRY_KEY_MAX))
                        return bad(why, "records has a key that is none: '%.64s'", key);
                if (!json_is_object(value) && !json_is_null(value))
                        return bad(why, "record %.80s is no object", key);
                if (key_is_ours(key) && json_object_set(a->records, key, value) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int take_conflict(const json_t *from, struct sync_answer *a, char why[static SYNC_WHY_MAX]) {
        const json_t *since = json_object_get(from, "since");

        if (!from || json_is_null(from))
                return 0;
        if (!json_is_object(from))
                return bad(why, "conflict is no object");
        a->conflict = true;
        utf8_copy(a->holder, sizeof(a->holder), json_string_value(json_object_get(from, "holder")));
        utf8_copy(a->holder_id, sizeof(a->holder_id), json_string_value(json_object_get(from, "id")));
        utf8_copy(a->holder_address, sizeof(a->holder_address),
                  json_string_value(json_array_get(json_object_get(from, "address"), 0)));
        a->since = json_is_integer(since) && json_integer_value(since) > 0 ?
                           (usec_t) json_integer_value(since) :
                           0;
        return 0;
}

static int take_term(const json_t *o, struct sync_answer *a, char why[static SYNC_WHY_MAX]) {
        const json_t *term = json_object_get(o, "term"), *store = json_object_get(o, "store");
        const char *name = json_string_value(store);

        if (!json_is_integer(term) || json_integer_value(term) < 0)
                return bad(why, "term is no whole number from 0 on");
        if (!name || !printable(name, sizeof(a->store) - 1))
                return bad(why, "store is no text of at most %zu characters", sizeof(a->store) - 1);
        a->term = (uint64_t) json_integer_value(term);
        memcpy(a->store, name, strlen(name) + 1);
        return 0;
}

static int take_answer(json_t *o, struct sync_answer *a, char why[static SYNC_WHY_MAX]) {
        const json_t *version = json_object_get(o, "v"), *lease = json_object_get(o, "lease");
        const char *revision = json_string_value(json_object_get(o, "revision"));
        int r;

        if (!json_is_object(o) || !json_is_integer(version) || json_integer_value(version) < 1)
                return bad(why, "no object with \"v\":1");
        if (!json_is_number(lease) || json_number_value(lease) * USEC_PER_SEC < (double) SYNC_LEASE_MIN ||
            json_number_value(lease) * USEC_PER_SEC > (double) SYNC_LEASE_MAX)
                return bad(why, "lease is no number of seconds from %d to %d",
                           (int) (SYNC_LEASE_MIN / USEC_PER_SEC), (int) (SYNC_LEASE_MAX / USEC_PER_SEC));
        if (!revision || !printable(revision, sizeof(a->revision) - 1))
                return bad(why, "revision is no text of at most %zu characters", sizeof(a->revision) - 1);
        a->lease = (usec_t) (json_number_value(lease) * USEC_PER_SEC);
        memcpy(a->revision, revision, strlen(revision) + 1);
        a->whole = json_is_true(json_object_get(o, "whole"));
        a->tell = json_is_true(json_object_get(o, "tell"));
        r = take_term(o, a, why);
        if (r == 0)
                r = take_conflict(json_object_get(o, "conflict"), a, why);
        return r < 0 ? r : take_records(json_object_get(o, "records"), a, why);
}

int sync_answer_parse(const char *text, size_t len, struct sync_answer *ret, char why[static SYNC_WHY_MAX]) {
        _cleanup_sync_answer_ struct sync_answer a = SYNC_ANSWER_NULL;
        json_error_t error;
        json_t *o;
        int r;

        if (len > SYNC_ANSWER_MAX) {
                (void) bad(why, "longer than %d MiB", SYNC_ANSWER_MAX / 1024 / 1024);
                return -E2BIG;
        }
        o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
        if (!o)
                return bad(why, "no JSON: %.100s", error.text);
        r = take_answer(o, &a, why);
        json_decref(o);
        if (r == -ENOMEM)
                (void) snprintf(why, SYNC_WHY_MAX, "out of memory");
        if (r < 0)
                return r;
        *ret = a;
        a = SYNC_ANSWER_NULL;
        return 0;
}

json_t *sync_error_object(const void *body, size_t len) {
        return len > 0 && len < SYNC_ERROR_MAX ? json_loadb(body, len, 0, NULL) : NULL;
}

void sync_error_text(long status, const json_t *o, char *buf, size_t size) {
        const char *error = json_string_value(json_object_get(o, "error"));

        if (!error && (status == 404 || status == 405))
                (void) snprintf(buf, size, "it keeps no registry: no tpu-collectord (HTTP %ld)", status);
        else
                (void) snprintf(buf, size, "HTTP %ld%s%.160s", status, error ? ": " : "",
                                error ? error : "");
}

bool sync_is_refusal(long status) {
        return status == 400 || status == 401 || (status >= 403 && status <= 405) || status == 409 ||
               status == 413 || status == 422;
}

/* --- Names --------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {
        [REGISTRY_NONE] = "none",
        [REGISTRY_STATIC] = "static",
        [REGISTRY_COLLECTOR] = "collector",
};
_Static_assert(ELEMENTSOF(kind_names) == _REGISTRY_KIND_MAX, "every kind has a name");

static const char *const state_names[] = {
        [REGISTRY_JOINING] = "joining", [REGISTRY_MEMBER] = "member",   [REGISTRY_CONFLICT] = "conflict",
        [REGISTRY_AWAY] = "away",       [REGISTRY_REFUSED] = "refused",
};
_Static_assert(ELEMENTSOF(state_names) == _REGISTRY_STATE_MAX, "every state has a name");

const char *registry_kind_name(enum registry_kind k) {
        return kind_names[k];
}

int registry_kind_parse(const char *name, enum registry_kind *ret) {
        for (enum registry_kind k = 0; k < _REGISTRY_KIND_MAX; k++)
                if (streq(kind_names[k], name)) {
                        *ret = k;
                        return 0;
                }
        return -EINVAL;
}

const char *registry_state_name(enum registry_state s) {
        return state_names[s];
}

/* --- What the registry has sent ----------------------------------------------------------------------- */

int registry_known_init(struct registry_known *t, sd_event *e, const struct registry_events *events,
                       void *userdata) {
        t->event = sd_event_ref(e);
        t->events = *events;
        t->userdata = userdata;
        t->status.since = registry_known_now(t);
        t->records = json_object();
        return t->records ? 0 : -ENOMEM;
}

void registry_known_clear(struct registry_known *t) {
        json_decref(t->records);
        t->records = NULL;
        t->event = sd_event_unref(t->event);
}

void registry_known_record(struct registry_known *t, const char *key, const json_t *value) {
        json_t *known = json_object_get(t->records, key), *now = (json_t *) (uintptr_t) value;

        if (!now || json_is_null(now)) {
                if (!known)
                        return;
                (void) json_object_del(t->records, key); /* it is there */
                t->events.record(key, NULL, t->userdata);
                return;
        }
        if (known && json_equal(known, now))
                return;
        /* Out of memory: the handler is called nevertheless, and called again with the next answer that
         * names it. */
        (void) json_object_set(t->records, key, now);
        t->events.record(key, now, t->userdata);
}

void registry_known_whole(struct registry_known *t, const json_t *records) {
        json_t *all = (json_t *) (uintptr_t) records, *value;
        const char *key;
        void *next;

        json_object_foreach_safe(t->records, next, key, value) {
                char gone[REGISTRY_KEY_MAX + 1];

                if (json_object_get(all, key))
                        continue;
                (void) snprintf(gone, sizeof(gone), "%s", key); /* the key goes with its record */
                registry_known_record(t, gone, NULL);
        }
        json_object_foreach(all, key, value)
                registry_known_record(t, key, value);
        if (t->complete)
                return;
        t->complete = true;
        t->events.complete(t->userdata);
}

void registry_known_status(struct registry_known *t, enum registry_state s, bool may_claim,
                           const char *why) {
        struct registry_status *now = &t->status;
        char text[sizeof(now->why)]; /* why may be the one that stands */

        (void) snprintf(text, sizeof(text), "%s", why);
        if (now->state == s && now->may_claim == may_claim && streq(now->why, text))
                return;
        if (now->state != s)
                (void) sd_event_now(t->event, CLOCK_BOOTTIME, &now->since); /* as in registry_known_init() */
        now->state = s;
        now->may_claim = may_claim;
        memcpy(now->why, text, sizeof(now->why));
        t->events.status(now, t->userdata);
}

void registry_known_notice(struct registry_known *t, const char *fmt, ...) {
        char text[256];
        va_list ap;

        if (!t->events.notice)
                return;
        va_start(ap, fmt);
        (void) vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        (void) utf8_scrub(text, strlen(text)); /* it may hold what came, cut anywhere */
        t->events.notice(text, t->userdata);
}

usec_t registry_known_now(const struct registry_known *t) {
        usec_t now = 0;

        /* Fails for a clock that is not there only. */
        (void) sd_event_now(t->event, CLOCK_BOOTTIME, &now);
        return now;
}

/* Generation 0: nobody gave one. The others are named, not seen. */
static json_t *slice_alone(const char *slice, unsigned worker, const json_t *member) {
        json_t *me = json_pack("{s:I, s:O?, s:O?, s:O?, s:O?}", "worker", (json_int_t) worker, "host",
                               json_object_get(member, "host"), "id", json_object_get(member, "id"),
                               "address", json_object_get(member, "address"), "incarnation",
                               json_object_get(member, "incarnation"));

        return json_pack("{s:i, s:s, s:i, s:s, s:i, s:I, s:[o], s:[], s:[], s:[]}", "v", 1, "slice", slice,
                         "generation", 0, "state", "static", "since", 0, "hosts",
                         json_integer_value(json_object_get(member, "hosts")), "roster", me, "missing",
                         "conflicts", "unlike");
}

void registry_known_alone(struct registry_known *t, const char *slice, unsigned worker,
                          const json_t *member) {
        char key[REGISTRY_KEY_MAX + 1];
        json_t *all;

        (void) snprintf(key, sizeof(key), "slice/%.63s", slice);
        all = json_pack("{s:o}", key, slice_alone(slice, worker, member));
        if (all)
                registry_known_whole(t, all);
        registry_known_status(t, REGISTRY_MEMBER, false,
                              "no registry: membership is what the identity says");
        json_decref(all);
}

bool sync_date(const char *line, size_t len, usec_t *ret) {
        struct tm tm = { 0 };
        char text[64];

        if (len < 5 || len >= sizeof(text) || strncasecmp(line, "Date:", 5) != 0)
                return false;
        (void) snprintf(text, sizeof(text), "%.*s", (int) len - 5, line + 5);
        if (!strptime(text, " %a, %d %b %Y %H:%M:%S GMT", &tm))
                return false;
        *ret = (usec_t) timegm(&tm) * USEC_PER_SEC;
        return true;
}
