/* SPDX-License-Identifier: Apache-2.0 */
#include "sync_answer.h"

#include "registry_told.h"
#include "utf8.h"

void sync_answer_clear(struct sync_answer *a) {
        json_decref(a->records);
        *a = SYNC_ANSWER_NULL;
}

__attribute__((format(printf, 2, 3))) static int bad(char why[static SYNC_WHY_MAX], const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(why, SYNC_WHY_MAX, fmt, ap);
        va_end(ap);
        (void) utf8_scrub(why, strlen(why));
        return -EBADMSG;
}

static bool printable(const char *text, size_t max) {
        size_t n = strlen(text);

        for (size_t i = 0; i < n; i++)
                if (text[i] < ' ' || text[i] > '~')
                        return false;
        return n <= max;
}

/* "slice/s0", "run/train": only kinds that a host is told; what is new in a later version is passed over. */
static bool key_is_ours(const char *key) {
        static const char *const kinds[] = { "slice/", "run/", "order/", "site/", "capture/" };

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

static int take(json_t *o, struct sync_answer *a, char why[static SYNC_WHY_MAX]) {
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
        r = take(o, &a, why);
        json_decref(o);
        if (r == -ENOMEM)
                (void) snprintf(why, SYNC_WHY_MAX, "out of memory");
        if (r < 0)
                return r;
        *ret = a;
        a = SYNC_ANSWER_NULL;
        return 0;
}
