/* SPDX-License-Identifier: Apache-2.0 */
#include "remote_request.h"
#include "remote_stale.h"
#include "remote_stream.h"
#include "store-support.h"

#define MINUTE (60 * USEC_PER_SEC)

static void learn(struct stale *t, int64_t host, int64_t series, int64_t ms, usec_t now) {
        struct handed_point p = { .host = host, .series = series, .ms = ms };
        const struct handover h = { .points = &p, .n = 1 };

        ASSERT_OK(stale_learn(t, &h, now));
}

static size_t ended(struct stale *t, usec_t now, int64_t *ret_series, int64_t *ret_ms) {
        _cleanup_handover_ struct handover h = { 0 };

        ASSERT_OK(stale_take(t, now, 100, &h));
        if (h.n > 0) {
                double marker = remote_stale_marker();

                *ret_series = h.points[0].series;
                *ret_ms = h.points[0].ms;
                ASSERT_EQ(memcmp(&h.points[0].d, &marker, sizeof(marker)), 0);
        }
        return h.n;
}

static void series_end(void) {
        struct stale t = { 0 };
        int64_t series = 0, ms = 0;

        for (usec_t s = 0; s <= 120; s += 10) {
                learn(&t, 7, 1, (int64_t) s * 1000, MINUTE + s * USEC_PER_SEC);
                if (s == 10)
                        learn(&t, 7, 2, 10000, MINUTE + s * USEC_PER_SEC);
                if (s == 60)
                        ASSERT_EQ(ended(&t, MINUTE + s * USEC_PER_SEC, &series, &ms), 0U);
        }
        ASSERT_EQ(ended(&t, 3 * MINUTE, &series, &ms), 1U);
        ASSERT_EQ(series, 2);
        ASSERT_EQ(ms, 10001); /* right behind the last point */
        ASSERT_EQ(ended(&t, 3 * MINUTE, &series, &ms), 0U); /* once */
        ASSERT_EQ(ended(&t, 3 * MINUTE + STALE_AFTER, &series, &ms), 1U); /* the host fell silent */
        ASSERT_EQ(series, 1);
        ASSERT_EQ(t.n, 0U);
        stale_clear(&t);
}

/* One that says something every five minutes is not silent in between. */
static void slow_hosts_do_not_end(void) {
        struct stale t = { 0 };
        int64_t series = 0, ms = 0;

        learn(&t, 7, 1, 0, MINUTE);
        learn(&t, 7, 1, 300000, 6 * MINUTE);
        ASSERT_EQ(ended(&t, 16 * MINUTE, &series, &ms), 0U);
        ASSERT_EQ(ended(&t, 21 * MINUTE, &series, &ms), 1U);
        stale_clear(&t);
}

static void frames(void) {
        static const struct handed_point points[] = { { .ms = 1, .d = 2 } };
        const struct handed_series one = { .host = "h", .worker_id = -1, .name = "a.b", .attributes = "{}",
                                           .service = "x", .unit = "By", .points = points, .n = 1 };
        _cleanup_remote_request_ struct remote_request q = { 0 };
        size_t len = 0;

        remote_request_begin(&q);
        while (q.len < 70000)
                ASSERT_OK(remote_request_add(&q, &one));
        len = q.len;
        ASSERT_OK(remote_request_end(&q));
        ASSERT_EQ(q.len, 3 + len + 2 * 3); /* the length, and two literals with their heads */
        ASSERT_EQ((q.data[0] & 0x7fU) | (q.data[1] & 0x7fU) << 7 | (unsigned) q.data[2] << 14, len);
        ASSERT_EQ(q.data[3], 61 << 2);
        ASSERT_EQ(q.data[4] | q.data[5] << 8, 65535);
        ASSERT_EQ(q.data[6 + 65536], 61 << 2);
        ASSERT_EQ(q.data[6 + 65536 + 1] | q.data[6 + 65536 + 2] << 8, (int) (len - 65536 - 1));
}

static void what_has_no_name_is_left_out(void) {
        static const struct handed_point points[] = { { .ms = 1 }, { .ms = 2 } };
        struct handed_series one = { .host = "h", .worker_id = -1, .name = "9lives", .attributes = "{}",
                                     .service = "x", .unit = "", .points = points, .n = 2 };
        _cleanup_remote_request_ struct remote_request q = { 0 };
        char attributes[4096] = "{", *at = attributes + 1;

        remote_request_begin(&q);
        ASSERT_OK(remote_request_add(&q, &one));
        ASSERT_EQ(q.unnamed, 2U);
        for (unsigned i = 0; i <= REMOTE_LABELS_MAX; i++)
                at += sprintf(at, "%s\"k%u\":\"v\"", i > 0 ? "," : "", i);
        memcpy(at, "}", sizeof("}"));
        one.name = "many";
        one.attributes = attributes;
        ASSERT_OK(remote_request_add(&q, &one));
        ASSERT_EQ(q.unnamed, 4U);
        ASSERT_EQ(q.len, 0U);
        one.attributes = "{\"job\":\"other\",\"a\":null,\"b\":[1],\"c\":\"\"}"; /* ours counts; no texts */
        ASSERT_OK(remote_request_add(&q, &one));
        ASSERT_EQ(q.samples, 2U);
        ASSERT_TRUE(!memmem(q.data, q.len, "other", 5));
}

/* --- What waits in the store ----------------------------------------------------------------------- */

static void remove_database(void) {
        static const char *const ends[] = { "", "-wal", "-shm" };

        for (size_t i = 0; i < ELEMENTSOF(ends); i++) {
                char file[80];

                (void) snprintf(file, sizeof(file), "%s%s", path, ends[i]);
                (void) unlink(file);
        }
}

static void put_point(struct store *s, const char *host, int64_t ms) {
        const struct store_metric m = { .service = "x", .name = "m", .attributes = "{}", .unit = "",
                                        .is_int = true, .i = ms, .d = (double) ms,
                                        .time = (usec_t) (INT64_C(1700000000000) + ms) * USEC_PER_MSEC };
        int64_t id;

        ASSERT_OK(store_begin(s));
        ASSERT_OK(store_find_host(s, host, 100, &id));
        ASSERT_OK(store_add_point(s, id, &m));
        ASSERT_OK(store_commit(s));
}

/* A host's backlog is behind the others', and old before new; retention takes what waits, and counts it. */
static void rows_wait(void) {
        const struct store_retention r = { .days = 1, .line_bytes = UINT64_MAX, .bytes = UINT64_MAX };
        _cleanup_handover_ struct handover h = { 0 };
        struct handover_state state;
        char aside[300], why[256];
        struct store *s = NULL;
        unsigned hosts;
        size_t n = 0;

        (void) snprintf(path, sizeof(path), "/tmp/test-remote-%d.db", getpid());
        ASSERT_OK(store_open(path, &s, aside, why));
        put_point(s, "before", 0);
        store_hand_over(s, true);
        for (int64_t i = 100; i > 0; i--) /* the newest comes first */
                put_point(s, "a", i * 120000);
        put_point(s, "b", 0);
        ASSERT_OK(store_read_handover(s, 0, 1000, 1000, &h));
        ASSERT_EQ(h.n_rows, 33U); /* some of a's, then b's */
        ASSERT_EQ(h.points[0].d, 120000.0);
        ASSERT_EQ(h.points[31].d, 32 * 120000.0);
        ASSERT_EQ(h.points[32].d, 0.0);
        ASSERT_TRUE(h.end);
        ASSERT_OK(store_forget_handover(s, &h));
        for (int64_t after = 0; n < 68; after = h.end ? 0 : h.through) {
                ASSERT_OK(store_read_handover(s, after, 5, 1000, &h));
                for (size_t i = 0; i < h.n; i++)
                        ASSERT_EQ(h.points[i].d, (double) (33 + n + i) * 120000);
                n += h.n;
                if (n < 60)
                        ASSERT_OK(store_forget_handover(s, &h));
                else
                        break;
        }
        ASSERT_OK(store_handover_state(s, &state));
        ASSERT_EQ(state.waiting, 68U - n + h.n_rows);
        for (unsigned i = 0; i < 20; i++)
                ASSERT_OK(store_tend(s, &r, UINT64_C(1800000000000) * USEC_PER_MSEC, &hosts));
        ASSERT_EQ(store_handover_state(s, &state), 0);
        ASSERT_EQ(state.waiting, 0U);
        ASSERT_EQ(state.expired, 68U - n + h.n_rows);
        (void) store_free(s);
        remove_database();
}

/* --- One that is refused --------------------------------------------------------------------------- */

/* A receiver that refuses whatever has this word in it, as remote_stream.c asks it. */
static void hand_on(struct remote_stream *t, const char *bad, usec_t now, unsigned *ret_requests,
                    uint64_t *ret_refused) {
        *ret_requests = 0;
        *ret_refused = 0;
        while (t->kind->next(t, now) > 0) {
                bool refused = bad && memmem(t->request.data, t->request.len, bad, strlen(bad));

                ASSERT_TRUE(++*ret_requests < 1000);
                if (refused && t->kind->halve(t))
                        continue;
                if (refused)
                        *ret_refused += t->request.samples;
                else
                        t->counters.written += t->request.samples;
                ASSERT_OK(t->kind->end(t, !refused, now));
        }
}

/* One push of n points, of this hour. */
static void put_push(struct store *s, const char *host, unsigned n, const char *bad, unsigned hour) {
        int64_t id;

        ASSERT_OK(store_begin(s));
        ASSERT_OK(store_find_host(s, host, 100, &id));
        for (unsigned i = 0; i < n; i++) {
                char attributes[64];
                const struct store_metric m = { .service = "x", .name = "m", .attributes = attributes,
                                                .unit = "", .is_int = true, .i = i, .d = i,
                                                .time = (UINT64_C(1700000000) + 3600 * hour) *
                                                        USEC_PER_SEC };

                (void) snprintf(attributes, sizeof(attributes), "{\"k\":\"%s%u\"}",
                                i == n / 3 || i == n - 1 ? bad : "v", i);
                ASSERT_OK(store_add_point(s, id, &m));
        }
        ASSERT_OK(store_commit(s));
}

/* Two bad points of a push, and bad markers, cost nobody else's; pushes that are bad as a whole hold nobody
 * up. */
static void one_bad_point(void) {
        usec_t now = 1000 * USEC_PER_SEC;
        char aside[300], why[256];
        struct remote_options o = { .store = NULL };
        struct remote_stream t = { .kind = &remote_kind_samples, .o = &o, .max = 256 };
        unsigned requests;
        uint64_t refused;

        (void) snprintf(path, sizeof(path), "/tmp/test-remote-%d.db", getpid());
        ASSERT_OK(store_open(path, &o.store, aside, why));
        store_hand_over(o.store, true);
        t.kind->forget(&t);
        for (unsigned i = 0; i < 4; i++) {
                (void) snprintf(aside, sizeof(aside), "host%u", i);
                put_push(o.store, aside, 300, i == 1 ? "poison" : "v", 0);
        }
        hand_on(&t, "poison", now, &requests, &refused);
        ASSERT_EQ(refused, 2U);
        ASSERT_EQ(t.counters.written, 4U * 300 - 2);
        ASSERT_TRUE(requests < 60);
        now += 2 * STALE_AFTER;
        hand_on(&t, "v298", now, &requests, &refused);
        ASSERT_EQ(refused, 4U);
        ASSERT_EQ(t.counters.markers, 4U * 300 - 2 - 4);
        for (unsigned i = 0; i < 20; i++)
                put_push(o.store, "bad", 300, "v", i);
        hand_on(&t, "bad", now, &requests, &refused);
        ASSERT_TRUE(requests < 200);
        (void) store_free(o.store);
        handover_clear(&t.points.batch);
        stale_clear(&t.points.stale);
        remote_request_clear(&t.request);
        remove_database();
}

/* --- Events and lines ------------------------------------------------------------------------------ */

static void put_records(struct store *s, unsigned first, unsigned n) {
        int64_t id;

        ASSERT_OK(store_begin(s));
        ASSERT_OK(store_find_host(s, "h", 100, &id));
        for (unsigned i = first; i < first + n; i++) {
                const struct store_event e = { .service = "tpu-hostd", .name = "e", .body = "null",
                                               .attributes = "{}", .time = i, .received = i };
                const struct store_line l = { .run = i % 2 ? "odd" : "even", .invocation = "i", .text = "x",
                                              .worker_id = -1, .generation = -1, .number = i + 1,
                                              .time = i };

                ASSERT_OK(store_add_event(s, id, NULL, &e));
                ASSERT_EQ(store_add_line(s, id, &l, i), 1);
        }
        ASSERT_OK(store_commit(s));
}

static int on_any_line(const struct store_line_row *l, void *userdata) {
        int64_t *last = userdata;

        ASSERT_EQ(l->id, *last + 1);
        ASSERT_STREQ(l->line.run, l->line.number % 2 ? "even" : "odd");
        *last = l->id;
        return 0;
}

/* What was there before the first question is not handed on, and a position outlives the program. */
static void records_have_a_position(void) {
        const struct store_retention r = { .days = 1, .line_bytes = UINT64_MAX, .bytes = UINT64_MAX };
        char aside[300], why[256];
        struct store *s = NULL;
        uint64_t waiting = 7;
        int64_t at = -1;
        unsigned hosts;

        (void) snprintf(path, sizeof(path), "/tmp/test-remote-%d.db", getpid());
        ASSERT_OK(store_open(path, &s, aside, why));
        put_records(s, 0, 5);
        for (enum handed_records k = 0; k < _HANDED_MAX; k++) {
                ASSERT_OK(store_records_waiting(s, k, &waiting));
                ASSERT_EQ(waiting, 0U);
                ASSERT_OK(store_handed(s, k, &at));
                ASSERT_EQ(at, 5);
        }
        put_records(s, 5, 20);
        ASSERT_OK(store_set_handed(s, HANDED_LINES, 12));
        s = store_free(s);
        ASSERT_OK(store_open(path, &s, aside, why));
        ASSERT_OK(store_handed(s, HANDED_EVENTS, &at));
        ASSERT_EQ(at, 5);
        ASSERT_OK(store_handed(s, HANDED_LINES, &at));
        ASSERT_EQ(at, 12);
        ASSERT_OK(store_records_waiting(s, HANDED_EVENTS, &waiting));
        ASSERT_EQ(waiting, 20U);
        ASSERT_OK(store_records_waiting(s, HANDED_LINES, &waiting));
        ASSERT_EQ(waiting, 13U);
        ASSERT_OK(store_list_all_lines(s, at, 7, on_any_line, &at));
        ASSERT_EQ(at, 19);
        for (unsigned i = 0; i < 20; i++) /* what is removed does not wait */
                ASSERT_OK(store_tend(s, &r, UINT64_C(1800000000000) * USEC_PER_MSEC, &hosts));
        ASSERT_OK(store_records_waiting(s, HANDED_EVENTS, &waiting));
        ASSERT_EQ(waiting, 0U);
        (void) store_free(s);
        remove_database();
}

TEST_MAIN(series_end, slow_hosts_do_not_end, frames, what_has_no_name_is_left_out, rows_wait,
          one_bad_point, records_have_a_position)
