/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that fail again and again: what is read of the store, and how often. */
#include "store-support.h"
#include "suspects.h"
#include "test.h"

#define NOW (1795237200 * USEC_PER_SEC)
#define DAY (86400 * USEC_PER_SEC)

static char dir[] = "/tmp/test-suspects-XXXXXX";
static struct store *store;
static struct suspects *s;

static void begin(void) {
        char aside[300], why[256];

        if (!path[0])
                ASSERT_TRUE(mkdtemp(dir));
        (void) snprintf(path, sizeof(path), "%s/c.db", dir);
        ASSERT_OK(store_open(path, &store, aside, why));
        ASSERT_OK(suspects_new(&s));
}

static void end(void) {
        char file[80];

        s = suspects_free(s);
        store = store_free(store);
        for (size_t i = 0; i < 3; i++) {
                (void) snprintf(file, sizeof(file), "%s%s", path, i == 0 ? "" : i == 1 ? "-wal" : "-shm");
                (void) unlink(file);
        }
}

static void add(const char *host, enum event_id id, const char *field, const char *value, const char *run,
                usec_t at) {
        char body[200];
        const struct store_event e = { .service = "tpu-hostd",
                                       .name = event_def(id)->name,
                                       .body = body,
                                       .attributes = "{}",
                                       .severity = 13,
                                       .time = at,
                                       .received = at };
        const struct store_identity i = { .slice = "s0", .worker_id = 3 };
        int64_t h;

        (void) snprintf(body, sizeof(body), "{\"%s\": \"%s\", \"run\": \"%s\"}", field, value, run);
        ASSERT_OK(store_find_host(store, host, at, &h));
        ASSERT_OK(store_add_event(store, h, &i, &e));
}

/* The words about the only suspect; "": there is none. */
static const char *words(const char *host, usec_t now) {
        const json_t *v = suspects_words(s, store, now);
        const char *text = json_string_value(json_object_get(v, host));

        ASSERT_TRUE(v);
        return text ? text : "";
}

static void test_words(void) {
        begin();
        ASSERT_STREQ(words("h3", NOW), "");
        ASSERT_OK(store_begin(store));
        add("h3", EVENT_STALL_CONFIRMED, "outcome", "named", "a", NOW - 2 * DAY - 1);
        add("h3", EVENT_STALL_CONFIRMED, "outcome", "named", "b", NOW);
        add("h4", EVENT_KERNEL_FAULT, "fault", "nic_reset", "", NOW);
        ASSERT_OK(store_commit(store));
        ASSERT_STREQ(words("h3", NOW + SUSPECTS_KEPT - 1), ""); /* kept as they were */
        ASSERT_STREQ(words("h3", NOW + SUSPECTS_KEPT), "2 confirmed stalls in 3 days");
        ASSERT_STREQ(words("h4", NOW + SUSPECTS_KEPT), "");
        ASSERT_OK(store_begin(store));
        add("h4", EVENT_RUN_EXITED, "cause", "device-lost", "c", NOW);
        ASSERT_OK(store_commit(store));
        ASSERT_STREQ(words("h4", NOW + 2 * SUSPECTS_KEPT), "1 failed run, 1 kernel fault in 1 day");
        ASSERT_STREQ(words("h3", NOW + 15 * DAY), "");
        end();
}

/* What is the collector's own, and about no host, makes no suspect. */
static void test_own(void) {
        begin();
        ASSERT_OK(store_begin(store));
        add(STORE_OWN_NAME, EVENT_RUN_CHANGED, "cause", "host-lost", "a", NOW);
        add(STORE_OWN_NAME, EVENT_RUN_CHANGED, "cause", "host-lost", "b", NOW);
        ASSERT_OK(store_commit(store));
        ASSERT_STREQ(words(STORE_OWN_NAME, NOW), "");
        end();
}

/* A full store is read piece by piece, each event once, and what is old not at all. */
static void test_pieces(void) {
        struct suspect_host *list;
        size_t n;
        char run[16];

        begin();
        ASSERT_OK(store_begin(store));
        for (unsigned i = 0; i < 100; i++)
                add("old", EVENT_STALL_CONFIRMED, "outcome", "named", "a", NOW - 20 * DAY);
        for (unsigned i = 0; i < SUSPECTS_READ_MAX; i++) {
                (void) snprintf(run, sizeof(run), "r%u", i);
                add("h3", EVENT_STALL_CONFIRMED, "outcome", "named", run, NOW);
        }
        for (unsigned i = 0; i < 3; i++) {
                (void) snprintf(run, sizeof(run), "r%u", i);
                add("h5", EVENT_STALL_CONFIRMED, "outcome", "named", run, NOW);
        }
        ASSERT_OK(store_commit(store));
        ASSERT_EQ(suspects_read(s, store, NOW), 1);
        ASSERT_OK(suspects_list(s, NOW, &list, &n));
        ASSERT_EQ(n, 1);
        ASSERT_STREQ(list[0].host, "h3");
        free(list);
        ASSERT_EQ(suspects_read(s, store, NOW), 0);
        ASSERT_OK(suspects_list(s, NOW, &list, &n));
        ASSERT_EQ(n, 2);
        ASSERT_STREQ(list[0].host, "h3"); /* of all its reports the newest are kept */
        ASSERT_EQ(list[0].runs, SUSPECTS_REPORTS_MAX);
        ASSERT_STREQ(list[1].host, "h5");
        ASSERT_STREQ(list[1].slice, "s0");
        ASSERT_EQ(list[1].worker, 3);
        ASSERT_EQ(list[1].runs, 3);
        ASSERT_EQ(list[1].reports[0].count, 3);
        ASSERT_EQ(list[1].reports[0].event, ask("SELECT max(id) FROM events"));
        free(list);
        ASSERT_EQ(suspects_read(s, store, NOW), 0);
        ASSERT_OK(suspects_list(s, NOW, &list, &n));
        ASSERT_TRUE(fabs(list[1].score - 3) < 0.001);
        free(list);
        end();
}

/* The hosts that are kept are bounded: those whose last report is the oldest make room. */
static void test_many_hosts(void) {
        struct suspect_host *list;
        size_t n;
        char host[24];

        begin();
        ASSERT_OK(store_begin(store));
        for (unsigned i = 0; i < SUSPECTS_HOSTS_MAX + 2; i++) {
                (void) snprintf(host, sizeof(host), "h%u", i);
                for (unsigned k = 0; k < 2; k++)
                        add(host, EVENT_STALL_CONFIRMED, "outcome", "named", k ? "a" : "b", NOW - DAY + i);
        }
        ASSERT_OK(store_commit(store));
        while (suspects_read(s, store, NOW) > 0) {
        }
        ASSERT_OK(suspects_list(s, NOW, &list, &n));
        ASSERT_EQ(n, SUSPECTS_HOSTS_MAX);
        for (size_t i = 0; i < n; i++)
                ASSERT_TRUE(!streq(list[i].host, "h0") && !streq(list[i].host, "h1"));
        free(list);
        end();
}

/* Another database is read from its beginning, though its ids are low. */
static void test_replaced(void) {
        begin();
        ASSERT_OK(store_begin(store));
        for (unsigned i = 0; i < 50; i++)
                add("h3", EVENT_STALL_CONFIRMED, "outcome", "named", i % 2 ? "a" : "b", NOW);
        ASSERT_OK(store_commit(store));
        ASSERT_STREQ(words("h3", NOW), "2 confirmed stalls in 1 day");
        {
                struct suspects *kept = TAKE_PTR(s);

                end();
                begin();
                suspects_free(s);
                s = kept;
        }
        suspects_forget(s);
        ASSERT_STREQ(words("h3", NOW), "");
        ASSERT_OK(store_begin(store));
        add("h4", EVENT_STALL_CONFIRMED, "outcome", "named", "a", NOW);
        add("h4", EVENT_STALL_CONFIRMED, "outcome", "named", "b", NOW);
        ASSERT_OK(store_commit(store));
        ASSERT_STREQ(words("h4", NOW + SUSPECTS_KEPT), "2 confirmed stalls in 1 day");
        end();
        (void) rmdir(dir);
}

TEST_MAIN(test_words, test_own, test_pieces, test_many_hosts, test_replaced)
