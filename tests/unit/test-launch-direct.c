/* SPDX-License-Identifier: Apache-2.0 */
/* Runs without systemd, with real processes: this program is its own shim when it is started with --shim. */
#include "launch-bench.h"
#include "shim.h"
#include "unit_direct.h"
#include "wire_text.h"

struct direct_bench {
        struct bench b;
        struct unit_direct *direct;
};

static void attach(struct direct_bench *d) {
        d->b.host.clock = clock_system;
        ASSERT_OK(unit_direct_new(d->b.event, &d->b.host, "/proc/self/exe", &runs_unit_events, d->b.runs, &d->direct));
        runs_attach(d->b.runs, &unit_direct_backend, d->direct);
}

static void init(struct direct_bench *d) {
        bench_init(&d->b);
        scratch_write(&d->b.scratch, "bin/sh", "");
        d->direct = NULL;
        attach(d);
}

/* As if launchd were killed and started again: the runs are not asked. */
static void again(struct direct_bench *d) {
        d->direct = unit_direct_free(d->direct);
        bench_down(&d->b);
        bench_up(&d->b);
        attach(d);
}

static void done(struct direct_bench *d) {
        d->direct = unit_direct_free(d->direct);
        bench_free(&d->b);
}
#define _cleanup_done_ _cleanup_(done)

static void run(struct direct_bench *d, const char *name, const char *script, Local__Preempt *preempt, usec_t grace) {
        char *words[] = { (char[]){ "/bin/sh" }, (char[]){ "-c" }, NULL };
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;
        Local__RunReply *reply;
        int fd;

        words[2] = wire_text(script);
        q.name = wire_text(name);
        q.argv = words;
        q.n_argv = 3;
        q.directory = wire_text("");
        q.preempt = preempt;
        q.grace_usec = grace;
        q.share_devices = true;
        fd = ask(&d->b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base);
        reply = (Local__RunReply *) take(&d->b, fd, LOCAL__KIND__KIND_RUN_REPLY, &local__run_reply__descriptor);
        local__run_reply__free_unpacked(reply, NULL);
        (void) close(fd);
}

/* Its job when it has ended, to be freed with the reply; others have nothing to do with it. */
static Local__JobsReply *ended(struct direct_bench *d, const char *cause, const char *status) {
        for (unsigned i = 0; i < 3000; i++) {
                Local__JobsReply *l = list(&d->b, 1);

                if (streq(l->job[0]->state, "exited")) {
                        if (!streq(l->job[0]->cause, cause) || !streq(l->job[0]->status, status))
                                test_fail(__FILE__, __LINE__, "%s %s (%s), not %s %s", l->job[0]->cause, l->job[0]->status,
                                          l->job[0]->why, cause, status);
                        return l;
                }
                local__jobs_reply__free_unpacked(l, NULL);
        }
        test_fail(__FILE__, __LINE__, "it does not end");
}

static void expect_end(struct direct_bench *d, const char *cause, const char *status) {
        local__jobs_reply__free_unpacked(ended(d, cause, status), NULL);
}

static pid_t read_pid(struct direct_bench *d, const char *file) {
        char text[32];

        for (unsigned i = 0; i < 3000; i++) {
                if (host_read(&d->b.host, file, text, sizeof(text), NULL) == 0 && atoi(text) > 0)
                        return atoi(text);
                turn(&d->b);
        }
        test_fail(__FILE__, __LINE__, "%s is not written", file);
}

static void test_ends(void) {
        _cleanup_done_ struct direct_bench d;
        Local__JobsReply *l;

        init(&d);
        run(&d, "a", "exit 0", NULL, 0);
        expect_end(&d, "success", "0");
        run(&d, "a", "exit 93", NULL, 0);
        expect_end(&d, "never-restart", "93");
        run(&d, "a", "kill -KILL $$", NULL, 0);
        expect_end(&d, "signal", "KILL");
        run(&d, "a", "echo 'completed step: 7, seconds: 0.5, loss: 0.3'; echo 'Megascale detects a hang'; exit 1", NULL, 0);
        l = ended(&d, "hang", "1");
        ASSERT_TRUE(l->job[0]->step_known && l->job[0]->last_step == 7);
        local__jobs_reply__free_unpacked(l, NULL);
}

/* What was forked twice, into a session of its own, is gone with the run. */
static void test_orphans(void) {
        _cleanup_done_ struct direct_bench d;
        char script[1024], file[512];
        pid_t pid;

        init(&d);
        scratch_path(&d.b.scratch, "pid", file);
        (void) snprintf(script, sizeof(script), "(setsid sh -c 'echo $$ >%.400s; exec sleep 1000' &); while ! test -s %.400s; do :; done", file,
                        file);
        run(&d, "a", script, NULL, 500 * USEC_PER_MSEC);
        pid = read_pid(&d, "/pid");
        expect_end(&d, "success", "0");
        ASSERT_TRUE(kill(pid, 0) < 0 && errno == ESRCH);
}

static void test_stop_and_kill(void) {
        Local__StopRequest q = LOCAL__STOP_REQUEST__INIT;
        _cleanup_done_ struct direct_bench d;
        char script[1024], file[512];
        int fd;

        init(&d);
        scratch_path(&d.b.scratch, "pid", file);
        (void) snprintf(script, sizeof(script), "trap '' TERM; echo $$ >%.400s; while :; do sleep 0.05; done", file);
        run(&d, "a", script, NULL, 300 * USEC_PER_MSEC);
        (void) read_pid(&d, "/pid");
        q.name = wire_text("a");
        fd = ask(&d.b, LOCAL__KIND__KIND_STOP_REQUEST, &q.base);
        local__stop_reply__free_unpacked((Local__StopReply *) take(&d.b, fd, LOCAL__KIND__KIND_STOP_REPLY,
                                                                   &local__stop_reply__descriptor),
                                         NULL);
        (void) close(fd);
        expect_end(&d, "timeout", "KILL");
}

/* It goes on while launchd is dead, and its end is known to the next one. */
static void test_outlives_us(void) {
        _cleanup_done_ struct direct_bench d;
        char script[1024], file[512];
        Local__JobsReply *l;
        pid_t pid;

        init(&d);
        scratch_path(&d.b.scratch, "pid", file);
        (void) snprintf(script, sizeof(script), "echo $$ >%.400s; exec sleep 1000", file);
        run(&d, "a", script, NULL, 0);
        pid = read_pid(&d, "/pid");
        again(&d);
        turn(&d.b);
        l = list(&d.b, 1);
        ASSERT_STREQ(l->job[0]->state, "running");
        ASSERT_EQ(l->job[0]->main_pid, (uint32_t) pid);
        ASSERT_EQ(l->job[0]->processes, 1);
        local__jobs_reply__free_unpacked(l, NULL);
        again(&d);
        ASSERT_OK(kill(pid, SIGSEGV));
        expect_end(&d, "signal", "SEGV");
        again(&d);
        expect_end(&d, "signal", "SEGV");
}

static void test_preempted(void) {
        Local__SignalRequest q = LOCAL__SIGNAL_REQUEST__INIT;
        Local__Preempt how = LOCAL__PREEMPT__INIT;
        _cleanup_done_ struct direct_bench d;
        char script[1024], file[512];
        int fd;

        init(&d);
        scratch_path(&d.b.scratch, "pid", file);
        how.signal = wire_text("USR1");
        (void) snprintf(script, sizeof(script), "trap 'exit 5' USR1; echo $$ >%.400s; while :; do sleep 0.05; done", file);
        run(&d, "a", script, &how, 0);
        (void) read_pid(&d, "/pid");
        q.name = wire_text("a");
        fd = ask(&d.b, LOCAL__KIND__KIND_SIGNAL_REQUEST, &q.base);
        local__signal_reply__free_unpacked((Local__SignalReply *) take(&d.b, fd, LOCAL__KIND__KIND_SIGNAL_REPLY,
                                                                       &local__signal_reply__descriptor),
                                           NULL);
        (void) close(fd);
        expect_end(&d, "preempted", "5");
}

/* The shim itself is killed: nobody knows how the run ended, and that is never a success. */
static void test_shim_is_killed(void) {
        _cleanup_done_ struct direct_bench d;
        char script[1024], file[512];
        _cleanup_close_ int shims = -1;
        struct shim_file f;
        pid_t pid;

        init(&d);
        scratch_path(&d.b.scratch, "pid", file);
        (void) snprintf(script, sizeof(script), "echo $$ >%.400s; exec sleep 1000", file);
        run(&d, "a", script, NULL, 0);
        pid = read_pid(&d, "/pid");
        shims = state_make_shims(&d.b.host);
        ASSERT_OK(shim_file_read(shims, "a", &f));
        ASSERT_TRUE(f.alive && f.command == pid);
        ASSERT_OK(kill(f.shim, SIGKILL));
        expect_end(&d, "unknown", "");
        ASSERT_OK(kill(pid, SIGKILL));
}

int main(int argc, char *argv[]) {
        void (*const tests[])(void) = { test_ends, test_orphans, test_stop_and_kill, test_outlives_us, test_preempted,
                                        test_shim_is_killed };

        if (argc == 7 && streq(argv[3], "--shim")) {
                _cleanup_host_ struct host h = HOST_NULL;

                return host_open(argv[2], &h) < 0 ? EXIT_FAILURE : shim_main(&h, argv[4], argv[6]);
        }
        return bench_main(tests, ELEMENTSOF(tests));
}
