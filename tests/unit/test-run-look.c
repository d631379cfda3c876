/* SPDX-License-Identifier: Apache-2.0 */
/* A close look at one run: its control group and what is below it, its threads' waits for a CPU, and the
 * difference of two looks. */
#include "run_look.h"
#include "test.h"

#define MACHINE FIXTURES "/machine-metrics"

static void test_look(void) {
        _cleanup_host_ struct host h = HOST_NULL;
        _cleanup_(run_look_clear) struct run_look l = { .group = 0 };

        ASSERT_OK(host_open(MACHINE, &h));
        ASSERT_OK(run_look_take(&h, cgroup_base(&h), "my-run", NULL, 5, &l));
        ASSERT_TRUE(l.group != 0 && l.at == 5);
        ASSERT_EQ(l.cpu.user_usec, 2000000);
        ASSERT_EQ(l.memory.major_faults, 41);
        ASSERT_EQ(l.memory.refaults, 42);
        ASSERT_EQ(l.memory.reclaimed, 43);
        ASSERT_EQ(l.io.read_bytes, 1010);
        ASSERT_EQ(l.tasks, 17);
        ASSERT_EQ(l.full[PRESSURE_CPU], 125000);
        ASSERT_EQ(l.n_threads, 2); /* 99 is gone */
        ASSERT_TRUE(l.threads[0].tid == 71 && l.threads[0].waited_ns == 2000);
        ASSERT_TRUE(l.threads[1].tid == 72 && l.threads[1].waited_ns == 40000);
        ASSERT_EQ(run_look_waited(&l, &l), 0);
}

static void test_none(void) {
        _cleanup_host_ struct host h = HOST_NULL;
        _cleanup_(run_look_clear) struct run_look l = { .group = 0 };

        ASSERT_OK(host_open(MACHINE, &h));
        ASSERT_EQ(run_look_take(&h, cgroup_base(&h), "other", NULL, 5, &l), -ENOENT);
        ASSERT_EQ(run_look_take(&h, cgroup_base(&h), "../my-run", NULL, 5, &l), -ENOENT);
        ASSERT_EQ(run_look_take(&h, cgroup_base(&h), "", NULL, 5, &l), -ENOENT);
}

static void test_waited(void) {
        struct run_thread before[] = { { .tid = 1, .waited_ns = 10 }, { .tid = 3, .waited_ns = 100 },
                                       { .tid = 4, .waited_ns = 50 } },
                          after[] = { { .tid = 2, .waited_ns = 7 }, { .tid = 3, .waited_ns = 130 },
                                      { .tid = 4, .waited_ns = 40 } };
        struct run_look from = { .threads = before, .n_threads = 3 },
                to = { .threads = after, .n_threads = 3 }, none = { .at = 1 };

        ASSERT_EQ(run_look_waited(&from, &to), 7 + 30 + 40); /* 2 is new, 4 is another one of that number */
        ASSERT_EQ(run_look_waited(&from, &none), -1);
        from.more_threads = true;
        ASSERT_EQ(run_look_waited(&from, &to), 30); /* 2 may be old */
}

static void test_standing(void) {
        struct run_thread before[] = { { .tid = 1, .ran_ns = 5, .waited_ns = 7, .state = 'R',
                                         .comm = "python3" },
                                       { .tid = 2, .ran_ns = 5, .waited_ns = 7, .state = 'D',
                                         .comm = "loader" },
                                       { .tid = 3, .ran_ns = 5, .waited_ns = 7, .state = 'R',
                                         .comm = "runs" },
                                       { .tid = 4, .ran_ns = 5, .waited_ns = 7, .state = 'S',
                                         .comm = "idle" },
                                       { .tid = 5, .ran_ns = 5, .waited_ns = 7, .state = 'D',
                                         .comm = "woken" },
                                       { .tid = 7, .ran_ns = 5, .waited_ns = 7, .state = 'D',
                                         .comm = "waited" } },
                          after[] = { before[0], before[1], before[2], before[3], before[4],
                                      { .tid = 6, .ran_ns = 1, .waited_ns = 1, .state = 'D', .comm = "new" },
                                      before[5] };
        struct run_look from = { .threads = before, .n_threads = ELEMENTSOF(before) },
                to = { .threads = after, .n_threads = ELEMENTSOF(after) };
        struct run_standing s;

        after[2].ran_ns++;
        after[4].state = 'R';
        after[6].waited_ns++;
        run_look_standing(&from, &to, &s);
        ASSERT_TRUE(s.starved == 1 && s.blocked == 1);
        ASSERT_STREQ(s.starved_comm, "python3");
        ASSERT_STREQ(s.blocked_comm, "loader");
        run_look_standing(&to, &from, &s);
        ASSERT_EQ(s.starved + s.blocked, 2);
}

/* A quota leaves it a moment in each period: 5 ms of 5 s, or a tenth of the time. */
static void test_next_to_no_cpu(void) {
        struct run_thread before = { .tid = 1, .ran_ns = 5, .waited_ns = 7, .state = 'R', .comm = "spin" },
                          after = before;
        struct run_look from = { .threads = &before, .n_threads = 1, .at = 100 * USEC_PER_SEC },
                to = { .threads = &after, .n_threads = 1, .at = 105 * USEC_PER_SEC };
        struct run_standing s;

        after.ran_ns += 5 * 1000 * 1000;
        run_look_standing(&from, &to, &s);
        ASSERT_EQ(s.starved, 1);
        after.ran_ns += 500 * 1000 * 1000;
        run_look_standing(&from, &to, &s);
        ASSERT_EQ(s.starved, 0);
}

TEST_MAIN(test_standing, test_next_to_no_cpu, test_look, test_none, test_waited)
