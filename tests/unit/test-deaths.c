/* SPDX-License-Identifier: Apache-2.0 */
/* Who ended whom, out of records as deaths.bpf.c writes them: matched, held against each other, damaged. */
#include <signal.h>

#include "deaths.h"
#include "test.h"

static struct death_record record(enum death_kind kind, int signal, int victim, usec_t at) {
        struct death_record r = { .at = at * NSEC_PER_USEC, .kind = kind, .signal = signal, .victim = victim,
                                  .global = victim + 1000 };

        memcpy(r.victim_comm, "python3", 8);
        return r;
}

static struct death_record sent_by(int signal, int victim, usec_t at, int sender, const char *comm) {
        struct death_record r = record(DEATH_SIGNAL, signal, victim, at);

        r.sender = sender;
        r.sender_uid = 7;
        (void) snprintf(r.sender_comm, sizeof(r.sender_comm), "%s", comm);
        (void) snprintf(r.sender_group, sizeof(r.sender_group), "session-3.scope");
        return r;
}

static const struct death *take(struct death_log *d, struct death_record r, const char *run) {
        (void) snprintf(r.run, sizeof(r.run), "%s", run);
        return deaths_take(d, &r, sizeof(r));
}

static void test_the_sender_is_told(void) {
        struct death_log d = { 0 };
        char text[DEATH_TEXT_MAX];
        const struct death *e;

        ASSERT_TRUE(take(&d, sent_by(SIGTERM, 12, 5, 99, "other"), "tpu-run-a_b.slice") == NULL);
        ASSERT_TRUE(take(&d, sent_by(SIGKILL, 12, 6, 4242, "xyz"), "tpu-run-a_b.slice") == NULL);
        ASSERT_TRUE(take(&d, sent_by(SIGKILL, 13, 7, 1, "systemd"), "tpu-run-a_b.slice") == NULL);
        e = take(&d, record(DEATH_EXIT, SIGKILL, 12, 9), "tpu-run-a_b.slice");
        ASSERT_TRUE(e && e->ended && e->at == 9 && e->sender == 4242);
        ASSERT_STREQ(e->run, "a-b");
        ASSERT_STREQ(death_text(e, text), "SIGKILL from pid 4242 (xyz, uid 7, session-3.scope)");
        ASSERT_TRUE(deaths_find(&d, "a-b", 0, 0) == e && deaths_find(&d, "", 12, 9) == e);
        ASSERT_TRUE(deaths_find(&d, "a-b", 0, 10) == NULL && deaths_find(&d, "b", 0, 0) == NULL);
        ASSERT_EQ(deaths_find(&d, "", 13, 0)->sender, 1); /* sent, its end was not seen */
        ASSERT_FALSE(deaths_find(&d, "", 13, 0)->ended);
}

/* A number that is used again does not inherit the end of its predecessor. */
static void test_a_signal_counts_once(void) {
        struct death_log d = { 0 };
        char text[DEATH_TEXT_MAX];
        const struct death *e;

        (void) take(&d, sent_by(SIGKILL, 12, 6, 4242, "xyz"), "");
        ASSERT_EQ(take(&d, record(DEATH_EXIT, SIGKILL, 12, 9), "")->sender, 4242);
        e = take(&d, record(DEATH_EXIT, SIGKILL, 12, 20), "");
        ASSERT_FALSE(e->sender_known);
        ASSERT_STREQ(death_text(e, text), "SIGKILL from nobody that was seen");
}

static void test_the_kernel(void) {
        struct death_log d = { 0 };
        struct death_record r = record(DEATH_SIGNAL, SIGKILL, 12, 5),
                oom = record(DEATH_OOM, SIGKILL, 12, 6);
        char text[DEATH_TEXT_MAX];

        r.sender_kind = DEATH_BY_KERNEL;
        oom.victim = 0; /* as until Linux 6.8: the first namespace's number is all it tells */
        (void) take(&d, r, "tpu-run-x.slice");
        (void) take(&d, oom, "");
        ASSERT_STREQ(death_text(take(&d, record(DEATH_EXIT, SIGKILL, 12, 9), "tpu-run-x.slice"), text),
                     "SIGKILL from the kernel, out of memory");
        r.signal = SIGSEGV;
        (void) take(&d, r, "tpu-run-x.slice");
        ASSERT_STREQ(death_text(take(&d, record(DEATH_EXIT, SIGSEGV, 12, 9), ""), text),
                     "SIGSEGV from the kernel");
        /* known from the signal, where its end came too late */
        ASSERT_STREQ(deaths_find(&d, "x", 0, 0)->run, "x");
}

static void test_others(void) {
        struct death_log d = { 0 };
        char text[DEATH_TEXT_MAX];

        (void) take(&d, sent_by(SIGABRT, 12, 6, 12, "python3"), "");
        ASSERT_STREQ(death_text(take(&d, record(DEATH_EXIT, SIGABRT, 12, 9), ""), text),
                     "SIGABRT from itself");
        (void) take(&d, sent_by(SIGKILL, 12, 6, 0, "runc"), "");
        ASSERT_STREQ(death_text(take(&d, record(DEATH_EXIT, SIGKILL, 12, 9), ""), text),
                     "SIGKILL from runc, which is outside of this host's pid namespace");
}

static void test_more_than_is_kept(void) {
        struct death_log d = { 0 };

        for (int i = 1; i < 1000; i++)
                (void) take(&d, sent_by(SIGKILL, i, (usec_t) i, 4000 + i, "xyz"), "");
        ASSERT_FALSE(take(&d, record(DEATH_EXIT, SIGKILL, 1, 2000), "")->sender_known);
        for (int i = 950; i < 1000; i++)
                ASSERT_EQ(take(&d, record(DEATH_EXIT, SIGKILL, i, 2000), "")->sender, 4000 + i);
}

static void test_damaged(void) {
        struct death_log d = { 0 };
        struct death_record r = record(DEATH_EXIT, SIGKILL, 12, 9), bad;
        uint64_t refused = 0;

        for (size_t len = 0; len < sizeof(r); len++, refused++)
                ASSERT_TRUE(deaths_take(&d, &r, len) == NULL);
        for (int i = 0; i < 6; i++, refused++) {
                bad = r;
                if (i == 0)
                        bad.kind = 9;
                if (i == 1)
                        bad.signal = 0;
                if (i == 2)
                        bad.signal = -5;
                if (i == 3)
                        memset(bad.run, 'x', sizeof(bad.run));
                if (i == 4)
                        memset(bad.sender_comm, 'x', sizeof(bad.sender_comm));
                if (i == 5)
                        memset(bad.sender_group, 'x', sizeof(bad.sender_group));
                ASSERT_TRUE(deaths_take(&d, &bad, sizeof(bad)) == NULL);
        }
        ASSERT_EQ(d.refused, refused);
        ASSERT_STREQ(take(&d, r, "tpu-run-.slice")->run, ""); /* no name */
        ASSERT_STREQ(take(&d, r,
                          "tpu-run-0123456789012345678901234567890123456789012345678901234567.slice")->run,
                     "");
        ASSERT_STREQ(take(&d, r, "tpu-run-x.service")->run, "");
}

TEST_MAIN(test_the_sender_is_told, test_a_signal_counts_once, test_the_kernel, test_others,
          test_more_than_is_kept, test_damaged)
