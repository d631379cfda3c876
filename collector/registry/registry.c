/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>

#include "inside.h"
#include "log.h"

#define RETRY          USEC_PER_SEC /* after a commit that failed */
#define DECISION_SHARE 4 /* at most a fifth of the time is spent on decisions, when there is always one */
#define REQUEST_MAX    (256 * 1024)

struct registry {
        struct registry_options o;
        struct gang *gang;
        struct records records;
        struct answers answers;
        struct sessions sessions;
        struct registry_counters counters;
        json_t *pending; /* key -> value or null: decided, not on the disk yet */
        sd_event_source *timer;
        bool undecided;                  /* something was said since the last decision */
        usec_t decide_at, gang_at, cost; /* boot clock; cost of the last decision */
        bool failing;
};

static usec_t boot_now(const struct registry *r) {
        return clock_boot(r->o.clock);
}

static unsigned lease_seconds(const struct registry *r) {
        return (unsigned) (r->o.lease / USEC_PER_SEC);
}

static usec_t wait_max(const struct registry *r) {
        return MIN(r->o.lease / 3, REGISTRY_WAIT_MAX);
}

static void arm(struct registry *r) {
        usec_t next = MIN(r->gang_at, sessions_next(&r->sessions));
        int x;

        if (r->undecided)
                next = MIN(next, r->decide_at);
        if (next == USEC_INFINITY) {
                (void) sd_event_source_set_enabled(r->timer, SD_EVENT_OFF);
                return;
        }
        x = sd_event_source_set_time(r->timer, next);
        if (x >= 0)
                x = sd_event_source_set_enabled(r->timer, SD_EVENT_ONESHOT);
        if (x < 0)
                (void) log_warning_errno(x, "registry: timer: %m");
}

/* --- Decided, kept, told ------------------------------------------------------------------------------ */

static void on_changed(const char *key, const json_t *value, bool durable, void *userdata) {
        struct registry *r = userdata;
        /* Shared with the planner, which never alters a value that it gave out. */
        json_t *v = value ? json_incref((json_t *) (uintptr_t) value) : json_null();

        (void) durable; /* all are kept */
        if (json_object_set_new(r->pending, key, v) < 0)
                log_error("registry: out of memory: %s is told later", key);
}

static int write_record(struct registry *r, const char *key, const json_t *value) {
        _cleanup_free_ char *text = json_is_null(value) ? NULL : json_dumps(value, JSON_COMPACT);

        if (!json_is_null(value) && !text)
                return -ENOMEM;
        return store_put_registry(r->o.store, key, text);
}

static int write_pending(struct registry *r, bool *ret_events) {
        usec_t now = clock_real(r->o.clock);
        const char *key;
        json_t *v;
        int x;

        x = store_begin(r->o.store);
        json_object_foreach (r->pending, key, v) {
                const struct record *old = records_find(&r->records, key);

                if (x >= 0)
                        x = write_record(r, key, v);
                if (x >= 0)
                        x = story_tell(r->o.store, r->o.host, key, old ? old->value : NULL,
                                       json_is_null(v) ? NULL : v, now, ret_events);
        }
        return x < 0 ? x : store_commit(r->o.store);
}

/* What hosts are never sent need not be remembered. */
static bool is_told(const char *key) {
        return !startswith(key, "slot/") && !startswith(key, "intent/");
}

static void publish(struct registry *r) {
        uint64_t revision = r->records.revision + 1;
        const char *key;
        json_t *v;

        json_object_foreach (r->pending, key, v) {
                const struct record *old = records_find(&r->records, key);
                json_t *value = json_is_null(v) ? NULL : v;
                bool urgent = record_is_urgent(key, old ? old->value : NULL, value);

                if (is_told(key) && records_put(&r->records, key, json_incref(value), urgent, revision) < 0)
                        log_error("registry: out of memory: hosts are not told of %s", key);
        }
        (void) json_object_clear(r->pending);
}

static int commit(struct registry *r) {
        bool events = false;
        int x;

        if (json_object_size(r->pending) == 0)
                return 0;
        x = write_pending(r, &events);
        if (x < 0) {
                char text[256];

                (void) snprintf(text, sizeof(text), "%.250s",
                                x == -ENOMEM ? "out of memory" : store_error(r->o.store));
                store_rollback(r->o.store);
                if (!r->failing)
                        log_error("registry: cannot store what is decided, nobody is told of it before: %s",
                                  text);
                r->failing = true;
                r->counters.failed_commits++;
                r->o.failed(x, r->o.userdata);
                return x;
        }
        if (r->failing)
                log_notice("registry: what is decided is stored again");
        r->failing = false;
        r->counters.commits++;
        publish(r);
        if (events)
                r->o.events(r->o.userdata);
        return 0;
}

/* --- Those who wait -------------------------------------------------------------------------------------- */

static struct registry_body *out_of_memory(void) {
        return body_printf("{\"error\":\"out of memory\",\"remedy\":\"try again\"}");
}

static void answer(struct registry *r, struct session *s) {
        const struct reader w = { .slice = s->slice, .host = s->host, .since = s->since, .whole = s->whole };
        void *call = sessions_take_call(&r->sessions, s);
        struct registry_body *b = answers_make(&r->answers, r->gang, &r->records, &w);

        r->counters.answers++;
        r->counters.answered_bytes += b ? b->len : 0;
        r->o.answer(call, b ? 200 : 503, b ? b : out_of_memory(), r->o.userdata);
}

/* All for whom there is something to be told at once, and those who waited for the decision. */
static void answer_due(struct registry *r) {
        for (struct session *s = r->sessions.first, *next; s; s = next) {
                const struct reader w = {
                        .slice = s->slice, .host = s->host, .since = s->since, .whole = s->whole
                };

                next = s->later;
                if (s->call && (s->fresh || answers_is_due(&r->answers, r->gang, &r->records, &w)))
                        answer(r, s);
        }
}

static int decide(struct registry *r) {
        usec_t began = boot_now(r), now = clock_real(r->o.clock), next;
        int x;

        r->undecided = false;
        next = gang_step(r->gang, now, on_changed, r);
        x = commit(r);
        r->gang_at = x < 0                   ? began + RETRY
                     : next == USEC_INFINITY ? USEC_INFINITY
                                             : began + (next > now ? next - now : 0);
        if (x >= 0)
                answer_due(r);
        r->cost = boot_now(r) - began;
        r->counters.decisions++;
        r->counters.decided += r->cost;
        return x;
}

static void decide_soon(struct registry *r) {
        if (r->undecided)
                return;
        r->undecided = true;
        r->decide_at = boot_now(r) + MAX(REGISTRY_TOGETHER, MIN(DECISION_SHARE * r->cost, USEC_PER_SEC));
}

/* --- Leases ------------------------------------------------------------------------------------------------ */

static void leave(struct registry *r, struct session *s, bool shut_down) {
        void *call = sessions_take_call(&r->sessions, s);

        if (call)
                r->o.answer(
                        call, 200,
                        body_printf("{\"v\":1,\"lease\":%u,\"revision\":\"\",\"whole\":false,\"records\":{},"
                                    "\"tell\":true,\"conflict\":null}",
                                    lease_seconds(r)),
                        r->o.userdata);
        (void) gang_gone(r->gang, s->slice, s->worker, s->incarnation, shut_down,
                         shut_down ? "it was shut down" : "its lease ended",
                         clock_real(r->o.clock)); /* or it is another's */
        sessions_drop(&r->sessions, s);
        decide_soon(r);
}

static int on_timer(sd_event_source *source, uint64_t at, void *userdata) {
        struct registry *r = userdata;
        usec_t now = boot_now(r);
        struct session *s;

        (void) source;
        (void) at;
        while ((s = sessions_due(&r->sessions, now)))
                if (!s->fresh || !r->failing)
                        answer(r, s);
                else { /* it is told nothing that is not on the disk */
                        void *call = sessions_take_call(&r->sessions, s);

                        r->o.answer(
                                call, 503,
                                body_printf(
                                        "{\"error\":\"the database does not take it\",\"remedy\":\"see the "
                                        "journal of tpu-collectord\"}"),
                                r->o.userdata);
                }
        while (r->sessions.first && r->sessions.first->expires <= now) {
                r->counters.expired++;
                leave(r, r->sessions.first, false);
        }
        if ((r->undecided && r->decide_at <= now) || r->gang_at <= now)
                (void) decide(r); /* tried again by the timer */
        arm(r);
        return 0;
}

/* --- Sync ---------------------------------------------------------------------------------------------------- */

static unsigned refuse(struct registry *r, unsigned status, const char *why, struct registry_body **ret) {
        json_t *v = json_pack("{s:s, s:s}", "error", why, "remedy", "see docs/registry.md");
        _cleanup_free_ char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;

        json_decref(v);
        r->counters.refused++;
        *ret = body_printf(
                "%s",
                text ? text
                     : "{\"error\":\"the request cannot be understood\",\"remedy\":\"see docs/registry.md\"}");
        return status;
}

static unsigned tell_again(const struct registry *r, struct registry_body **ret) {
        *ret = body_printf(
                "{\"v\":1,\"lease\":%u,\"revision\":\"\",\"whole\":false,\"records\":{},\"tell\":true,\"conflict\":null}",
                lease_seconds(r));
        return 200;
}

static unsigned conflict(const struct registry *r, const json_t *member, struct registry_body **ret) {
        const char *slice = json_string_value(json_object_get(member, "slice"));
        json_int_t worker = json_integer_value(json_object_get(member, "worker"));
        char key[GANG_KEY_MAX];
        const json_t *slot;
        json_t *v;
        char *text;

        (void) snprintf(key, sizeof(key), "slot/%.63s/%lld", slice, (long long) worker);
        slot = gang_record(r->gang, key);
        v = json_pack("{s:i, s:i, s:s, s:b, s:{}, s:b, s:{s:O?, s:O?, s:O?, s:I}}", "v", 1, "lease",
                      (int) lease_seconds(r), "revision", "", "whole", 0, "records", "tell", 0, "conflict",
                      "holder", json_object_get(slot, "host"), "id", json_object_get(slot, "id"), "address",
                      json_object_get(slot, "address"), "since",
                      (json_int_t) clock_real(r->o.clock));
        text = v ? json_dumps(v, JSON_COMPACT) : NULL;
        json_decref(v);
        *ret = text ? body_printf("%s", text) : NULL;
        free(text);
        return *ret ? 200 : 503;
}

struct request {
        const json_t *member;
        char slice[64];
        unsigned worker;
        const char *incarnation;
        uint64_t since, said;
        bool whole, leaves;
        usec_t wait;
};

static int parse_same(const char *same, struct request *q) {
        const char *slash = strchr(same, '/');
        unsigned long worker;
        char *end;

        if (!slash || slash == same || slash - same >= (ptrdiff_t) sizeof(q->slice) || slash[1] < '0' ||
            slash[1] > '9')
                return -EBADMSG;
        worker = strtoul(slash + 1, &end, 10);
        if (*end || worker >= GANG_HOSTS_MAX)
                return -EBADMSG;
        memcpy(q->slice, same, (size_t) (slash - same));
        q->slice[slash - same] = '\0';
        q->worker = (unsigned) worker;
        return 0;
}

/* "EPOCH.REVISION" of ours; anything else is of another life: everything is told. */
static void parse_since(const struct registry *r, const char *text, struct request *q) {
        size_t n = strlen(r->answers.epoch);
        char *end;

        q->whole = true;
        if (!text || strncmp(text, r->answers.epoch, n) != 0 || text[n] != '.' || text[n + 1] < '0' ||
            text[n + 1] > '9')
                return;
        q->since = strtoull(text + n + 1, &end, 10);
        q->whole = *end || q->since > r->records.revision;
}

static int parse(const struct registry *r, const json_t *v, struct request *ret) {
        struct request q = { .member = json_object_get(v, "member"),
                             .leaves = json_is_true(json_object_get(v, "leave")) };
        const char *same = json_string_value(json_object_get(v, "same"));
        const json_t *wait = json_object_get(v, "wait"), *said = json_object_get(v, "said");

        if (json_integer_value(json_object_get(v, "v")) < 1 || (wait && !json_is_integer(wait)) ||
            (!same && !json_is_object(q.member)))
                return -EBADMSG;
        q.incarnation = json_string_value(json_object_get(v, "incarnation"));
        q.said = json_is_integer(said) && json_integer_value(said) > 0 ? (uint64_t) json_integer_value(said) : 0;
        if (same && (parse_same(same, &q) < 0 || !q.incarnation))
                return -EBADMSG;
        if (same)
                q.member = NULL;
        q.wait = (usec_t) MAX(json_integer_value(wait), 0) * USEC_PER_SEC;
        q.wait = MIN(q.wait, wait_max(r));
        parse_since(r, json_string_value(json_object_get(v, "since")), &q);
        *ret = q;
        return 0;
}

/* Spread, so that those who came together do not come together again. */
static usec_t spread(const struct session *s, usec_t wait) {
        uint32_t h = (uint32_t) (s->expires ^ (s->worker * 2654435761U));

        h = (h ^ h >> 16) * 0x45d9f3bU;
        return wait - wait / 4 * ((h ^ h >> 16) % 1024) / 1024;
}

/* Its lease is renewed, and the call is kept or answered. */
static unsigned keep(struct registry *r, struct session *s, const struct request *q, bool fresh, void *call,
                     struct registry_body **ret) {
        const struct reader w = { .slice = s->slice, .host = s->host, .since = q->since, .whole = q->whole };
        void *old = sessions_take_call(&r->sessions, s);

        if (old) /* its connection is gone, most likely */
                r->o.answer(
                        old, 200,
                        body_printf(
                                "{\"v\":1,\"lease\":%u,\"revision\":\"\",\"whole\":false,\"records\":{},\"tell\":true,"
                                "\"conflict\":null}",
                                lease_seconds(r)),
                        r->o.userdata);
        sessions_renew(&r->sessions, s, boot_now(r) + r->o.lease);
        s->since = q->since;
        s->whole = q->whole;
        if (!fresh && answers_is_due(&r->answers, r->gang, &r->records, &w)) {
                *ret = answers_make(&r->answers, r->gang, &r->records, &w);
                r->counters.answers++;
                r->counters.answered_bytes += *ret ? (*ret)->len : 0;
                return *ret ? 200 : 503;
        }
        s->fresh = fresh;
        sessions_wait(&r->sessions, s, call, boot_now(r), (fresh ? wait_max(r) : spread(s, q->wait)));
        arm(r);
        return 0;
}

static unsigned sync_same(struct registry *r, const struct request *q, void *call,
                          struct registry_body **ret) {
        struct session *s = sessions_find(&r->sessions, q->slice, q->worker);

        if (!s || !streq(s->incarnation, q->incarnation))
                return tell_again(r, ret);
        if (q->leaves) {
                leave(r, s, true);
                arm(r);
                return tell_again(r, ret);
        }
        if (q->said > 0 && s->said != q->said) /* what it said last was lost, or overtaken on the way */
                return tell_again(r, ret);
        return keep(r, s, q, false, call, ret);
}

/* Of a connection that was given up for the one that a later word came by. */
static bool is_overtaken(const struct registry *r, const struct request *q) {
        const struct session *s = sessions_find(&r->sessions, json_string_value(json_object_get(q->member, "slice")),
                                                (unsigned) json_integer_value(json_object_get(q->member, "worker")));
        const char *incarnation = json_string_value(json_object_get(q->member, "incarnation"));

        return s && incarnation && streq(s->incarnation, incarnation) && q->said > 0 && q->said < s->said;
}

static int find_session(struct registry *r, const json_t *member, struct session **ret) {
        const char *slice = json_string_value(json_object_get(member, "slice"));
        unsigned worker = (unsigned) json_integer_value(json_object_get(member, "worker"));
        int x;

        *ret = sessions_find(&r->sessions, slice, worker);
        x = *ret ? 0 : sessions_add(&r->sessions, slice, worker, ret);
        if (x < 0)
                return x;
        (void) snprintf((*ret)->host, sizeof((*ret)->host), "%s",
                        json_string_value(json_object_get(member, "host")));
        (void) snprintf((*ret)->incarnation, sizeof((*ret)->incarnation), "%s",
                        json_string_value(json_object_get(member, "incarnation")));
        return 0;
}

static unsigned sync_member(struct registry *r, const struct request *q, void *call,
                            struct registry_body **ret) {
        char why[GANG_WHY_MAX];
        struct session *s;
        bool is_new;
        int x;

        if (json_string_value(json_object_get(q->member, "slice")) && is_overtaken(r, q))
                return tell_again(r, ret);
        x = gang_say(r->gang, q->member, clock_real(r->o.clock), why);
        if (x == -EEXIST) {
                decide_soon(r);
                arm(r);
                return conflict(r, q->member, ret);
        }
        if (x == -EBADMSG)
                return refuse(r, 400, why, ret);
        if (x < 0)
                return refuse(r, 503, x == -ENOMEM ? "out of memory" : why, ret);
        is_new = !sessions_find(&r->sessions, json_string_value(json_object_get(q->member, "slice")),
                                (unsigned) json_integer_value(json_object_get(q->member, "worker")));
        x = find_session(r, q->member, &s);
        if (x < 0)
                return refuse(r, 503, "out of memory", ret);
        s->said = q->said;
        decide_soon(r);
        return keep(r, s, q, is_new || q->whole, call, ret);
}

unsigned registry_sync(struct registry *r, const char *body, size_t len, void *call,
                       struct registry_body **ret_body) {
        struct request q;
        unsigned status;
        json_t *v;

        r->counters.syncs++;
        *ret_body = NULL;
        if (len > REQUEST_MAX)
                return refuse(r, 413, "a member is at most 256 KiB", ret_body);
        v = json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
        if (!v || parse(r, v, &q) < 0)
                status = refuse(r, 400, "the body is no sync request of version 1", ret_body);
        else
                status = q.member ? sync_member(r, &q, call, ret_body) : sync_same(r, &q, call, ret_body);
        json_decref(v);
        return status;
}

/* --- People --------------------------------------------------------------------------------------------------- */

int registry_want(struct registry *r, const char *key, const json_t *value, char why[static GANG_WHY_MAX]) {
        int x;

        x = gang_want(r->gang, key, value, clock_real(r->o.clock), why);
        if (x < 0)
                return x;
        x = decide(r);
        arm(r);
        if (x < 0)
                (void) snprintf(why, GANG_WHY_MAX,
                                "it is taken, but not stored yet: the database does not take it");
        return x < 0 ? -EIO : 0;
}

int registry_release(struct registry *r, const char *slice, unsigned worker, char why[static GANG_WHY_MAX]) {
        int x;

        x = gang_release(r->gang, slice, worker, why);
        if (x < 0)
                return x;
        x = decide(r);
        arm(r);
        if (x < 0)
                (void) snprintf(why, GANG_WHY_MAX,
                                "it is taken, but not stored yet: the database does not take it");
        return x < 0 ? -EIO : 0;
}

const struct gang *registry_gang(const struct registry *r) {
        return r->gang;
}

unsigned registry_members(const struct registry *r) {
        return r->sessions.n;
}

const struct registry_counters *registry_counters(const struct registry *r) {
        return &r->counters;
}

static void add_pending(const char *key, const json_t *value, void *userdata) {
        on_changed(key, value, true, userdata);
}

void registry_write_all(struct registry *r) {
        gang_visit(r->gang, "", add_pending, r);
        decide_soon(r);
        arm(r);
}

/* --- Life -------------------------------------------------------------------------------------------------------- */

static int on_kept(const char *key, const char *value, void *userdata) {
        struct registry *r = userdata;
        char why[GANG_WHY_MAX] = "it is no JSON";
        json_t *v = json_loads(value, JSON_DECODE_ANY, NULL);
        int x;

        x = v ? gang_load(r->gang, key, v, clock_real(r->o.clock), why) : -EBADMSG;
        if (x == -EBADMSG) {
                log_error("registry: a record is left out: %s: %s", key, why);
                x = 0;
        } else if (x >= 0 && is_told(key))
                x = records_put(&r->records, key, json_incref(v), true, 1);
        json_decref(v);
        return x;
}

static int prepare(struct registry *r) {
        struct gang_options o = gang_default_options;
        uint64_t random;
        int x;

        o.lease = r->o.lease;
        if (getrandom(&random, sizeof(random), 0) != (ssize_t) sizeof(random))
                return -errno;
        r->answers.lease = lease_seconds(r);
        (void) snprintf(r->answers.epoch, sizeof(r->answers.epoch), "%016" PRIx64, random);
        r->pending = json_object();
        x = r->pending ? gang_new(&o, &r->gang) : -ENOMEM;
        if (x >= 0)
                x = records_init(&r->records);
        if (x >= 0)
                x = store_list_registry(r->o.store, on_kept, r);
        if (x >= 0)
                x = sd_event_add_time(r->o.event, &r->timer, CLOCK_BOOTTIME, 0, USEC_PER_MSEC, on_timer, r);
        if (x >= 0)
                x = sd_event_source_set_description(r->timer, "registry");
        return x < 0 ? x : 0;
}

int registry_new(const struct registry_options *o, struct registry **ret) {
        _cleanup_(registry_freep) struct registry *r = calloc(1, sizeof(*r));
        int x;

        if (!r)
                return -ENOMEM;
        r->o = *o;
        r->sessions.turned = boot_now(r) / WHEEL_SLOT * WHEEL_SLOT;
        x = prepare(r);
        if (x < 0)
                return x;
        decide_soon(r);
        arm(r);
        *ret = TAKE_PTR(r);
        return 0;
}

struct registry *registry_free(struct registry *r) {
        if (!r)
                return NULL;
        while (r->sessions.first) {
                void *call = sessions_take_call(&r->sessions, r->sessions.first);

                if (call)
                        r->o.answer(call, 503,
                                    body_printf(
                                            "{\"error\":\"the collector stops\",\"remedy\":\"try again\"}"),
                                    r->o.userdata);
                sessions_drop(&r->sessions, r->sessions.first);
        }
        (void) sd_event_source_unref(r->timer);
        answers_clear(&r->answers);
        records_clear(&r->records);
        json_decref(r->pending);
        gang_free(r->gang);
        free(r);
        return NULL;
}
