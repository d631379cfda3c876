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
        runs_unit_events.gone("a", d.b.runs);
        ASSERT_STREQ(job_shown_state(runs_find(d.b.runs, "a")), "ending"); /* not "running", while its last lines are read */
        expect_end(&d, "unknown", "");
        ASSERT_OK(kill(pid, SIGKILL));
}

static void write_group(struct direct_bench *d, const char *dir, const char *controllers, const char *divided) {
        char path[128];

        (void) snprintf(path, sizeof(path), "sys/fs/cgroup%s/cgroup.controllers", dir);
        scratch_write(&d->b.scratch, path, controllers);
        (void) snprintf(path, sizeof(path), "sys/fs/cgroup%s/cgroup.subtree_control", dir);
        scratch_write(&d->b.scratch, path, divided);
}

static int ask_limited(struct direct_bench *d, const char *script, const char *name) {
        char *words[] = { (char[]){ "/bin/sh" }, (char[]){ "-c" }, wire_text(script) };
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;
        Local__RunLimits limits = LOCAL__RUN_LIMITS__INIT;

        q.name = wire_text(name);
        q.argv = words;
        q.n_argv = 3;
        q.directory = wire_text("");
        q.share_devices = true;
        limits.memory_max = 300;
        limits.memory_total = 200;
        limits.memory_high = 100;
        limits.nofile = 77;
        limits.memlock = 65536;
        q.limits = &limits;
        return ask(&d->b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base);
}

static void expect_text(struct direct_bench *d, const char *path, const char *wanted) {
        char text[64];

        ASSERT_OK(host_read(&d->b.host, path, text, sizeof(text), NULL));
        ASSERT_STREQ(text, wanted);
}

/* A folder in the place of the kernel's tree: which group, which limits, who goes in, and what the kernel counted. */
static void test_memory(void) {
        _cleanup_done_ struct direct_bench d;
        char script[1024], file[512];
        Local__JobsReply *l;

        init(&d);
        scratch_path(&d.b.scratch, "limits", file);
        (void) snprintf(script, sizeof(script), "(ulimit -n; ulimit -l; ulimit -c) >%.400s; kill -KILL $$", file);
        /* None at all; then one that may not be divided: it is the top of what we see. */
        expect_error(&d.b, ask_limited(&d, script, "a"), EOPNOTSUPP, "without systemd it cannot have a limit of memory");
        scratch_write(&d.b.scratch, "proc/self/cgroup", "4:memory:/x\n0::/\n");
        write_group(&d, "", "cpu io", "");
        expect_error(&d.b, ask_limited(&d, script, "a"), EOPNOTSUPP, "without systemd");
        /* Ours cannot be, for it has no controllers to give; the one around it does. */
        scratch_write(&d.b.scratch, "proc/self/cgroup", "0::/box/agent\n");
        write_group(&d, "/box", "cpu memory", "cpu memory");
        write_group(&d, "/box/agent", "cpu", "");
        for (unsigned i = 0; i < 4; i++) {
                static const char *const files[] = { "memory.max", "memory.high", "cgroup.procs", "memory.events" };
                char path[128];

                (void) snprintf(path, sizeof(path), "sys/fs/cgroup/box/tpu-run-a/%s", files[i]);
                scratch_write(&d.b.scratch, path, i == 3 ? "low 0\noom 2\noom_kill 3\n" : "");
        }
        (void) close(ask_limited(&d, script, "a"));
        l = ended(&d, "oom-kill", "KILL");
        ASSERT_TRUE(strstr(l->job[0]->why, "killed 3 of its processes") != NULL);
        local__jobs_reply__free_unpacked(l, NULL);
        expect_text(&d, "/sys/fs/cgroup/box/tpu-run-a/memory.max", "200");
        expect_text(&d, "/sys/fs/cgroup/box/tpu-run-a/memory.high", "100");
        expect_text(&d, "/sys/fs/cgroup/box/tpu-run-a/cgroup.procs", "0");
        expect_text(&d, "/limits", "77\n64\n0"); /* memlock in KiB */
}

static off_t log_bytes(struct direct_bench *d) {
        struct stat st;

        return fstatat(d->b.host.root_fd, "var/lib/tpu-launchd/logs/a", &st, 0) < 0 ? -1 : st.st_size;
}

static off_t disk_bytes(struct direct_bench *d) {
        struct stat st;

        return fstatat(d->b.host.root_fd, "var/lib/tpu-launchd/logs/a", &st, 0) < 0 ? -1 : st.st_blocks * 512;
}

/* The newest stay, whole; where a file system makes no holes there is nothing to see. */
static void test_log_is_kept_small(void) {
        _cleanup_done_ struct direct_bench d;
        _cleanup_close_ int fd = -1;
        char script[1024], file[512], line[24];

        init(&d);
        scratch_write(&d.b.scratch, "etc/tpu-hostd/launchd.conf.d/10-site.conf", "[Logs]\nSize=1M\n");
        scratch_path(&d.b.scratch, "go", file);
        (void) snprintf(script, sizeof(script),
                        "yes 'a line of 23 characters' | head -n 200000; echo the last line; while ! test -e %.400s; do sleep 0.05; done", file);
        run(&d, "a", script, NULL, 0);
        while (log_bytes(&d) < 200000 * 24 + 14 || disk_bytes(&d) > 1024 * 1024) /* ctest's own limit ends it */
                turn(&d.b);
        scratch_write(&d.b.scratch, "go", "");
        expect_end(&d, "success", "0");
        fd = openat(d.b.host.root_fd, "var/lib/tpu-launchd/logs/a", O_RDONLY | O_CLOEXEC);
        ASSERT_EQ(lseek(fd, 0, SEEK_END), 200000 * 24 + 14);
        ASSERT_EQ(pread(fd, line, 14, 200000 * 24), 14);
        ASSERT_OK(memcmp(line, "the last line\n", 14));
        ASSERT_EQ(pread(fd, line, 1, 200000 * 24 - 1024 * 1024 / 2), 1); /* half of it is there in any case */
        ASSERT_TRUE(line[0] != '\0');
}

/* A log that nobody wrote to for long goes when another run starts; one of a run that goes on stays. */
static void test_old_logs_go(void) {
        _cleanup_done_ struct direct_bench d;
        const struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
        char script[1024], file[512];
        struct stat st;

        init(&d);
        scratch_path(&d.b.scratch, "pid", file);
        (void) snprintf(script, sizeof(script), "echo $$ >%.400s; exec sleep 1000", file);
        run(&d, "b", script, NULL, 0);
        (void) read_pid(&d, "/pid");
        scratch_write(&d.b.scratch, "var/lib/tpu-launchd/logs/old", "a line\n");
        ASSERT_OK(utimensat(d.b.host.root_fd, "var/lib/tpu-launchd/logs/old", old, 0));
        ASSERT_OK(utimensat(d.b.host.root_fd, "var/lib/tpu-launchd/logs/b", old, 0));
        run(&d, "c", "exit 0", NULL, 0);
        ASSERT_EQ(fstatat(d.b.host.root_fd, "var/lib/tpu-launchd/logs/old", &st, 0), -1);
        ASSERT_OK(fstatat(d.b.host.root_fd, "var/lib/tpu-launchd/logs/b", &st, 0));
        ASSERT_EQ(st.st_mode & 07777, 0400u);
        ASSERT_OK(kill(read_pid(&d, "/pid"), SIGKILL));
}

int main(int argc, char *argv[]) {
        void (*const tests[])(void) = { test_ends, test_orphans, test_stop_and_kill, test_outlives_us, test_preempted,
                                        test_shim_is_killed, test_memory, test_log_is_kept_small, test_old_logs_go };

        if (argc == 7 && streq(argv[3], "--shim")) {
                _cleanup_host_ struct host h = HOST_NULL;

                return host_open(argv[2], &h) < 0 ? EXIT_FAILURE : shim_main(&h, argv[4], argv[6]);
        }
        return bench_main(tests, ELEMENTSOF(tests));
}
