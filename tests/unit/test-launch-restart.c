/* SPDX-License-Identifier: Apache-2.0 */
/* A run that is restarted under its policy, told of a preemption, or cannot be killed. */
#include "launch-bench.h"

static int ask_policy(struct bench *b, const char *name, uint32_t restarts, const char *preempt) {
        Run__Spec s = spec_of_python(wire_text(name));
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;

        q.spec = &s;
        s.has_restarts = s.has_grace = true;
        s.restarts = restarts;
        s.grace = 5 * USEC_PER_MSEC;
        s.preempt = wire_text(preempt ? preempt : "none");
        return ask(b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base);
}

static void begin(struct bench *b, const char *name, uint32_t restarts, const char *preempt) {
        (void) close(ask_policy(b, name, restarts, preempt));
        runs_unit_events.started(name, "done", b->runs);
        expect_run(b, "running", "", "");
}

static void end(struct bench *b, const char *result, const char *code, const char *status) {
        record(b, result, code, status);
        runs_unit_events.gone(b->fake.name, b->runs);
}

static void wait_for_starts(struct bench *b, unsigned n) {
        for (unsigned i = 0; i < 3000 && b->fake.starts < n; i++)
                turn(b);
        ASSERT_EQ(b->fake.starts, n);
}

/* Keeps what is due waiting, for as long as a test looks at it. */
static void take_device(struct bench *b) {
        scratch_link(&b->scratch, "proc/812/fd/3", "/dev/accel0");
}

static void free_device(struct bench *b) {
        ASSERT_OK(unlinkat(b->host.root_fd, "proc/812/fd/3", 0));
}

static void test_started_again(void) {
        char before[64];
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        begin(&b, "a", 1, NULL);
        memcpy(before, b.fake.id, sizeof(before));
        take_device(&b);
        end(&b, "exit-code", "exited", "1");
        expect_run(&b, "waiting", "exit-code", "1");
        free_device(&b);
        wait_for_starts(&b, 2);
        ASSERT_TRUE(!streq(before, b.fake.id)); /* the record of the first is none of the second */
        runs_unit_events.started("a", "done", b.runs);
        expect_run(&b, "running", "", "");
        end(&b, "exit-code", "exited", "1");
        expect_run(&b, "exited", "exit-code", "1"); /* its budget is used up */
        {
                Local__RunListReply *reply = list(&b, 1);

                ASSERT_EQ(reply->run[0]->restarts, 1);
                ASSERT_TRUE(strstr(reply->run[0]->why, "all 1 restarts are done") != NULL);
                local__run_list_reply__free_unpacked(reply, NULL);
        }
}

/* Nobody of ours lived when it ended, nor when it was due; the budget is not counted anew. */
static void test_over_our_own_death(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        begin(&b, "a", 1, NULL);
        take_device(&b);
        bench_down(&b);
        ASSERT_OK(host_open(b.scratch.path, &b.host));
        record(&b, "signal", "killed", "SEGV");
        host_close(&b.host);
        bench_up(&b);
        expect_run(&b, "waiting", "signal", "SEGV");
        bench_down(&b); /* and once more, while it waits */
        bench_up(&b);
        free_device(&b);
        wait_for_starts(&b, 2);
        runs_unit_events.started("a", "done", b.runs);
        bench_down(&b);
        bench_up(&b);
        end(&b, "signal", "killed", "SEGV");
        expect_run(&b, "exited", "signal", "SEGV");
        /* the host went down: that is not for this host to repair */
        begin(&b, "a", 3, NULL);
        bench_down(&b);
        scratch_write(&b.scratch, "proc/sys/kernel/random/boot_id",
                      "99999999-2222-3333-4444-555555555555\n");
        bench_up(&b);
        expect_run(&b, "exited", "host-down", "");
}

static void test_ends_that_are_final(void) {
        static const char *const ends[][3] = { { "success", "exited", "0" }, { "exit-code", "exited", "93" },
                                               { "success", "killed", "TERM" } };
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        for (size_t i = 0; i < ELEMENTSOF(ends); i++) {
                begin(&b, "a", 9, NULL);
                end(&b, ends[i][0], ends[i][1], ends[i][2]);
                expect_run(&b, "exited", i == 0 ? "success" : i == 1 ? "never-restart" : "stopped",
                           ends[i][2]);
        }
}

/* Who stops a run means it, also while it waits, and also when we die right after. */
static void test_stop(void) {
        Local__StopRequest q = LOCAL__STOP_REQUEST__INIT;
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        q.name = (char[]){ "a" };
        begin(&b, "a", 9, NULL);
        take_device(&b);
        end(&b, "exit-code", "exited", "1");
        expect_run(&b, "waiting", "exit-code", "1");
        free_device(&b);
        local__stop_reply__free_unpacked(
                (Local__StopReply *) take(&b, ask(&b, LOCAL__KIND__KIND_STOP_REQUEST, &q.base),
                                          LOCAL__KIND__KIND_STOP_REPLY,
                                          &local__stop_reply__descriptor),
                NULL);
        expect_run(&b, "exited", "exit-code", "1");
        begin(&b, "a", 9, NULL);
        (void) close(ask(&b, LOCAL__KIND__KIND_STOP_REQUEST, &q.base));
        bench_down(&b);
        bench_up(&b);
        end(&b, "exit-code", "exited", "1");
        expect_run(&b, "exited", "stopped", "1");
        turn(&b);
        ASSERT_EQ(b.fake.starts, 2);
}

/* What a person is told to type has the run's name and the process in it. */
static void test_remedies_can_be_typed(void) {
        char text[128] = "tpuctl logs NAME; ps -p PID; tpuctl stop NAME";
        _cleanup_bench_ struct bench b;
        Local__RunListReply *reply;

        remedy_fill(text, sizeof(text), "a", 42);
        ASSERT_STREQ(text, "tpuctl logs a; ps -p 42; tpuctl stop a");
        bench_init(&b);
        begin(&b, "a", 0, NULL);
        end(&b, "exit-code", "exited", "1");
        reply = list(&b, 1);
        ASSERT_STREQ(reply->run[0]->remedy, "see: tpuctl logs a");
        local__run_list_reply__free_unpacked(reply, NULL);
        begin(&b, "a", 0, NULL);
        runs_unit_events.running("a", 42, "/tpu-run-a.slice/tpu-run-a.service", b.runs);
        scratch_write(&b.scratch, "sys/fs/cgroup/tpu-run-a.slice/tpu-run-a.service/cgroup.procs", "42\n");
        runs_give_up(b.runs, "a");
        reply = list(&b, 1);
        ASSERT_TRUE(strstr(reply->run[0]->remedy, "-p 42 ") != NULL);
        local__run_list_reply__free_unpacked(reply, NULL);
}

/* systemd still has the unit of before: asked again, and not counted as a restart. */
static void test_refused_once(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        begin(&b, "a", 1, NULL);
        end(&b, "exit-code", "exited", "1");
        wait_for_starts(&b, 2);
        runs_unit_events.refused("a", -EIO, "Transaction is destructive", b.runs);
        wait_for_starts(&b, 3);
        runs_unit_events.started("a", "done", b.runs);
        {
                Local__RunListReply *reply = list(&b, 1);

                ASSERT_STREQ(reply->run[0]->state, "running");
                ASSERT_EQ(reply->run[0]->restarts, 1);
                local__run_list_reply__free_unpacked(reply, NULL);
        }
}

static void test_devices_are_not_free(void) {
        _cleanup_bench_ struct bench b;
        Local__RunListReply *reply;

        bench_init(&b);
        begin(&b, "a", 1, NULL);
        take_device(&b);
        end(&b, "exit-code", "exited", "1");
        expect_run(&b, "waiting", "exit-code", "1");
        b.now.boot += 120 * USEC_PER_SEC;
        for (unsigned i = 0; i < 200; i++) {
                turn(&b);
                reply = list(&b, 1);
                if (streq(reply->run[0]->state, "exited")) {
                        ASSERT_TRUE(strstr(reply->run[0]->why,
                                           "/dev/accel0 is in use by process 812") != NULL);
                        local__run_list_reply__free_unpacked(reply, NULL);
                        ASSERT_EQ(b.fake.starts, 1);
                        /* given up for good: neither a restart of ours nor free devices begin it again */
                        bench_down(&b);
                        bench_up(&b);
                        free_device(&b);
                        expect_run(&b, "exited", "exit-code", "1");
                        runs_unit_events.connected(b.runs);
                        runs_unit_events.gone("a", b.runs);
                        for (unsigned k = 0; k < 10; k++)
                                turn(&b);
                        reply = list(&b, 1);
                        ASSERT_STREQ(reply->run[0]->state, "exited");
                        ASSERT_TRUE(strstr(reply->run[0]->why, "not restarted: ") != NULL);
                        ASSERT_TRUE(strstr(strstr(reply->run[0]->why, "not restarted: ") + 1,
                                           "not restarted: ") == NULL);
                        local__run_list_reply__free_unpacked(reply, NULL);
                        ASSERT_EQ(b.fake.starts, 1);
                        return;
                }
                local__run_list_reply__free_unpacked(reply, NULL);
        }
        test_fail(__FILE__, __LINE__, "it waits for ever");
}

static Local__SignalReply *tell(struct bench *b) {
        Local__SignalRequest q = LOCAL__SIGNAL_REQUEST__INIT;

        q.name = wire_text("a");
        q.reason = wire_text("preemption");
        return (Local__SignalReply *) take(b, ask(b, LOCAL__KIND__KIND_SIGNAL_REQUEST, &q.base),
                                           LOCAL__KIND__KIND_SIGNAL_REPLY, &local__signal_reply__descriptor);
}

static void test_preempted(void) {
        Local__SignalRequest q = LOCAL__SIGNAL_REQUEST__INIT;
        _cleanup_bench_ struct bench b;
        Local__SignalReply *reply;
        struct stat st;

        bench_init(&b);
        q.name = (char[]){ "a" };
        begin(&b, "a", 9, NULL);
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_SIGNAL_REQUEST, &q.base), ENOTSUP, "does not say");
        ASSERT_EQ(b.fake.signalled, 0);
        end(&b, "success", "killed", "TERM");
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_SIGNAL_REQUEST, &q.base), ESRCH, "ended");

        begin(&b, "a", 9, "TERM");
        runs_unit_events.running("a", 42, "/tpu-run-a.slice/tpu-run-a.service", b.runs);
        reply = tell(&b);
        ASSERT_STREQ(reply->done, "TERM to process 42");
        local__signal_reply__free_unpacked(reply, NULL);
        ASSERT_EQ(b.fake.signalled, SIGTERM);
        bench_down(&b); /* what it was told is still known */
        bench_up(&b);
        end(&b, "exit-code", "exited", "1");
        expect_run(&b, "exited", "preempted", "1");

        begin(&b, "a", 0, "/usr/bin/touch /srv/now");
        local__signal_reply__free_unpacked(tell(&b), NULL);
        ASSERT_EQ(b.fake.besides, 1);
        ASSERT_OK(fstatat(b.host.root_fd, "run/tpu-launchd/handover/a.preempt", &st, 0));
        end(&b, "success", "exited", "0");
        expect_run(&b, "exited", "success", "0"); /* it wrote its checkpoint and ended well */
        ASSERT_EQ(fstatat(b.host.root_fd, "run/tpu-launchd/handover/a.preempt", &st, 0), -1);
}

/* A process in state D: what waited for the end is told so, and nothing is started over it. */
static void test_unkillable(void) {
        Local__StopRequest q = LOCAL__STOP_REQUEST__INIT;
        _cleanup_bench_ struct bench b;
        int fd;

        bench_init(&b);
        begin(&b, "a", 0, NULL);
        runs_unit_events.running("a", 42, "/tpu-run-a.slice/tpu-run-a.service", b.runs);
        scratch_write(&b.scratch, "sys/fs/cgroup/tpu-run-a.slice/tpu-run-a.service/cgroup.procs", "42\n");
        q.name = (char[]){ "a" };
        fd = ask(&b, LOCAL__KIND__KIND_STOP_REQUEST, &q.base);
        runs_give_up(b.runs, "a"); /* as its timer does, a minute after KILL */
        expect_error(&b, fd, EBUSY, "process 42");
        expect_run(&b, "exited", "unkillable", "");
        expect_error(&b, ask_run(&b, "a", NULL, 0), EBUSY, "process 42");
        scratch_write(&b.scratch, "sys/fs/cgroup/tpu-run-a.slice/tpu-run-a.service/cgroup.procs", "");
        start(&b, "a");
}

int main(void) {
        void (*const tests[])(void) = {
                test_started_again, test_over_our_own_death, test_ends_that_are_final, test_stop,
                test_remedies_can_be_typed, test_refused_once,
                test_devices_are_not_free, test_preempted, test_unkillable,
        };

        return bench_main(tests, ELEMENTSOF(tests));
}
