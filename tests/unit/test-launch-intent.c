/* SPDX-License-Identifier: Apache-2.0 */
/* Runs by intent: idempotent by name and generation, one after the other, never over another process's
 * devices. */
#include <sys/file.h>

#include "io.h"
#include "launch-bench.h"

static int ask_intent(struct bench *b, const char *name, const char *serial, uint64_t generation) {
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;
        _cleanup_free_ char *copy = strdup(name);
        Run__Spec s = spec_of_python(copy);

        q.spec = &s;
        q.generation = generation;
        q.slice = (char[]){ "slice-a" };
        q.intent = wire_text(serial);
        return ask(b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base);
}

static int ask_generation(struct bench *b, const char *name, uint64_t generation) {
        return ask_intent(b, name, "5e71a1", generation);
}

static Local__RunReply *reply_of(struct bench *b, int fd) {
        Local__RunReply *r = (Local__RunReply *) take(b, fd, LOCAL__KIND__KIND_RUN_REPLY,
                                                      &local__run_reply__descriptor);

        (void) close(fd);
        return r;
}

static void expect_reply(struct bench *b, int fd, uint64_t generation, bool already, const char *state) {
        Local__RunReply *r = reply_of(b, fd);

        ASSERT_EQ(r->generation, generation);
        ASSERT_EQ(r->already, already);
        ASSERT_STREQ(r->state, state);
        local__run_reply__free_unpacked(r, NULL);
}

/* Until the backend was asked for this many starts: there are timers in between. */
static void wait_for_starts(struct bench *b, unsigned n) {
        for (unsigned i = 0; i < 500 && b->fake.starts < n; i++)
                turn(b);
        ASSERT_EQ(b->fake.starts, n);
}

static void test_asked_again(void) {
        _cleanup_bench_ struct bench b;
        int first, second;

        bench_init(&b);
        first = ask_generation(&b, "train", 3);
        second = ask_generation(&b, "train", 3); /* while it is starting: both are answered */
        ASSERT_EQ(b.fake.starts, 1);
        runs_unit_events.started("train", "done", b.runs);
        expect_reply(&b, first, 3, false, "running");
        expect_reply(&b, second, 3, false, "running");
        expect_reply(&b, ask_generation(&b, "train", 3), 3, true, "running");
        record(&b, "success", "exited", "0");
        runs_unit_events.gone("train", b.runs);
        /* It has run: it is not run twice, however often it is asked for, and neither after our own
         * death. */
        expect_reply(&b, ask_generation(&b, "train", 3), 3, true, "exited");
        bench_down(&b);
        bench_up(&b);
        expect_reply(&b, ask_generation(&b, "train", 3), 3, true, "exited");
        ASSERT_EQ(b.fake.starts, 1);
        expect_error(&b, ask_generation(&b, "train", 2), ESTALE, "generation 3");
}

static void test_higher_generation(void) {
        Local__RunListReply *reply;
        _cleanup_bench_ struct bench b;
        int fd;

        bench_init(&b);
        fd = ask_generation(&b, "train", 1);
        runs_unit_events.started("train", "done", b.runs);
        expect_reply(&b, fd, 1, false, "running");
        fd = ask_generation(&b, "train", 2);
        ASSERT_EQ(b.fake.stops, 1);
        ASSERT_EQ(b.fake.starts, 1);
        reply = list(&b, 1);
        ASSERT_EQ(reply->run[0]->generation, 1);
        local__run_list_reply__free_unpacked(reply, NULL);
        expect_error(&b, ask_generation(&b, "train", 1), ESTALE, "generation 2");
        record(&b, "success", "killed", "TERM");
        runs_unit_events.gone("train", b.runs);
        wait_for_starts(&b, 2);
        runs_unit_events.started("train", "done", b.runs);
        expect_reply(&b, fd, 2, false, "running");
        expect_run(&b, "running", "", "");
}

static bool has_variable(const Local__EnvironmentReply *r, const char *assignment) {
        for (size_t i = 0; i < r->n_env; i++)
                if (streq(r->env[i], assignment))
                        return true;
        return false;
}

/* The environment is built here, out of what tpu-hostd knows of the run and of the host; the static file is
 * stronger. */
static void test_environment_of_a_gang(void) {
        char *slices[] = { (char[]){ "s0" }, (char[]){ "s1" } },
                *hosts[] = { (char[]){ "10.0.0.3" }, (char[]){ "10.0.0.4" } };
        char *mine[] = { (char[]){ "TPU_WORKER_ID=7" } };
        Local__EnvironmentRequest e = LOCAL__ENVIRONMENT_REQUEST__INIT;
        Local__Fact facts[2] = { LOCAL__FACT__INIT, LOCAL__FACT__INIT }, *list[] = { &facts[0], &facts[1] };
        Run__Spec s = spec_of_python((char[]){ "train" });
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;
        Local__World w = LOCAL__WORLD__INIT;
        uint32_t counts[] = { 2, 2 };
        Local__EnvironmentReply *env;
        _cleanup_bench_ struct bench b;
        Local__RunReply *reply;
        int fd;

        bench_init(&b);
        facts[0].field = (char[]){ "accelerator-type" };
        facts[0].value = (char[]){ "v6e-16" };
        facts[0].origin = facts[1].origin = (char[]){ "metadata server" };
        facts[1].field = (char[]){ "slice-name" };
        facts[1].value = (char[]){ "other" };
        w.slice = slices;
        w.hosts = counts;
        w.n_slice = w.n_hosts = 2;
        w.own = w.worker = 1;
        w.host = hosts;
        w.n_host = 2;
        w.coordinator = (char[]){ "10.0.0.1" };
        w.port = 8476;
        w.fact = list;
        w.n_fact = 2;
        s.step_regex = (char[]){ "^s ([0-9]+)" };
        s.env = mine;
        s.n_env = 1;
        q.spec = &s;
        q.generation = 3;
        q.world = &w;
        fd = ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base);
        runs_unit_events.started("train", "done", b.runs);
        reply = reply_of(&b, fd);
        ASSERT_EQ(reply->n_conflict, 1);
        ASSERT_TRUE(startswith(reply->conflict[0], "TPU_WORKER_ID: yours '7' kept"));
        local__run_reply__free_unpacked(reply, NULL);
        e.name = (char[]){ "train" };
        fd = ask(&b, LOCAL__KIND__KIND_ENVIRONMENT_REQUEST, &e.base);
        env = (Local__EnvironmentReply *) take(&b, fd, LOCAL__KIND__KIND_ENVIRONMENT_REPLY,
                                               &local__environment_reply__descriptor);
        (void) close(fd);
        ASSERT_TRUE(has_variable(env, "TPU_RUN_STEP_EXPRESSION=^s ([0-9]+)")); /* a key that is a variable */
        ASSERT_TRUE(has_variable(env, "TPU_WORKER_ID=7") && has_variable(env, "TPU_NAME=s1") &&
                    has_variable(env, "TPU_ACCELERATOR_TYPE=v6e-16") &&
                    has_variable(env, "TPU_WORKER_HOSTNAMES=10.0.0.3,10.0.0.4") &&
                    has_variable(env, "TPU_RUN_NAME=train") && has_variable(env, "TPU_RUN_GENERATION=3") &&
                    has_variable(env, "TPU_RUN_SLICES=2") && has_variable(env, "TPU_RUN_SLICE=1") &&
                    has_variable(env, "TPU_RUN_HOSTS=4") && has_variable(env, "TPU_RUN_RANK=3") &&
                    has_variable(env, "TPU_RUN_COORDINATOR=10.0.0.1:8476"));
        local__environment_reply__free_unpacked(env, NULL);
        q.generation = 4;
        w.own = 2;
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), EINVAL, "none of its slices");
        w.own = 1;
        w.n_host = 1;
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), EINVAL, "another number of hosts");
        w.n_host = 2;
        w.interfaces = (char[]){ "eth0,\xff" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), EINVAL, "no text");
        w.interfaces = (char[]){ "eth0" };
        facts[0].field = (char[]){ "colour" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), EINVAL, "'colour'");
}

/* A start is tried: answered as one, and nothing begins. */
static void test_tried(void) {
        Run__Spec s = spec_of_python((char[]){ "train" });
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;
        _cleanup_bench_ struct bench b;
        Local__RunReply *r;

        bench_init(&b);
        q.spec = &s;
        q.generation = 2;
        q.intent = (char[]){ "5e71a1" };
        r = reply_of(&b, ask(&b, LOCAL__KIND__KIND_CHECK_REQUEST, &q.base));
        ASSERT_STREQ(r->name, "train");
        local__run_reply__free_unpacked(r, NULL);
        ASSERT_EQ(b.fake.starts, 0);
        local__run_list_reply__free_unpacked(list(&b, 0), NULL);
        (void) close(ask_generation(&b, "train", 3));
        runs_unit_events.started("train", "done", b.runs);
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_CHECK_REQUEST, &q.base), ESTALE, "generation 3");
        q.generation = 4; /* it would end the one that is there */
        local__run_reply__free_unpacked(reply_of(&b, ask(&b, LOCAL__KIND__KIND_CHECK_REQUEST, &q.base)),
                                        NULL);
        q.generation = 0;
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_CHECK_REQUEST, &q.base), EEXIST, "train is running");
        s.user = (char[]){ "nobody-is-called-so" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_CHECK_REQUEST, &q.base), ESRCH,
                     "is not known on this host");
        ASSERT_EQ(b.fake.starts, 1);
        ASSERT_EQ(b.fake.stops, 0);
}

static void expect_told(struct bench *b, int fd, size_t n, const char *state) {
        Local__RunListReply *r = (Local__RunListReply *) take(b, fd, LOCAL__KIND__KIND_RUN_LIST_REPLY,
                                                              &local__run_list_reply__descriptor);

        ASSERT_EQ(r->n_run, n);
        if (n > 0)
                ASSERT_STREQ(r->run[0]->state, state);
        local__run_list_reply__free_unpacked(r, NULL);
}

static void test_watched(void) {
        Local__RunListRequest q = LOCAL__RUN_LIST_REQUEST__INIT;
        _cleanup_close_ int fd = -1;
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        q.watch = true;
        fd = ask(&b, LOCAL__KIND__KIND_RUN_LIST_REQUEST, &q.base);
        expect_told(&b, fd, 0, "");
        (void) close(ask_generation(&b, "train", 1));
        runs_unit_events.started("train", "done", b.runs);
        expect_told(&b, fd, 1, "running");
        record(&b, "success", "exited", "0");
        runs_unit_events.gone("train", b.runs);
        expect_told(&b, fd, 1, "exited");
}

/* A third generation comes before the second has begun: the second never begins. */
static void test_overtaken(void) {
        _cleanup_bench_ struct bench b;
        int second, third;

        bench_init(&b);
        (void) close(ask_generation(&b, "train", 1));
        runs_unit_events.started("train", "done", b.runs);
        second = ask_generation(&b, "train", 2);
        third = ask_generation(&b, "train", 3);
        expect_error(&b, second, ESTALE, "generation 3");
        record(&b, "success", "killed", "TERM");
        runs_unit_events.gone("train", b.runs);
        wait_for_starts(&b, 2);
        runs_unit_events.started("train", "done", b.runs);
        expect_reply(&b, third, 3, false, "running");
}

/* Another intent under the name of one that has ended counts its generations anew. */
static void test_another_intent(void) {
        _cleanup_bench_ struct bench b;
        int fd;

        bench_init(&b);
        (void) close(ask_generation(&b, "train", 7));
        runs_unit_events.started("train", "done", b.runs);
        record(&b, "success", "exited", "0");
        runs_unit_events.gone("train", b.runs);
        fd = ask_intent(&b, "train", "0ther", 1);
        ASSERT_EQ(b.fake.starts, 2);
        runs_unit_events.started("train", "done", b.runs);
        expect_reply(&b, fd, 1, false, "running");
        expect_reply(&b, ask_intent(&b, "train", "0ther", 1), 1, true, "running");
}

static void test_stop_by_generation(void) {
        Local__StopRequest q = LOCAL__STOP_REQUEST__INIT;
        _cleanup_bench_ struct bench b;
        int second, stop;

        bench_init(&b);
        (void) close(ask_generation(&b, "train", 4));
        runs_unit_events.started("train", "done", b.runs);
        q.name = (char[]){ "train" };
        q.generation = 3;
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_STOP_REQUEST, &q.base), ESTALE, "generation 4");
        second = ask_generation(&b, "train", 5);
        q.generation = 5; /* what waits for its turn is not started either */
        stop = ask(&b, LOCAL__KIND__KIND_STOP_REQUEST, &q.base);
        expect_error(&b, second, ECANCELED, "generation 5");
        record(&b, "success", "killed", "TERM");
        runs_unit_events.gone("train", b.runs);
        local__stop_reply__free_unpacked((Local__StopReply *) take(&b, stop, LOCAL__KIND__KIND_STOP_REPLY,
                                                                   &local__stop_reply__descriptor),
                                         NULL);
        (void) close(stop);
        turn(&b);
        ASSERT_EQ(b.fake.starts, 1);
}

static void test_a_persons_run_is_not_replaced(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        start(&b, "train");
        expect_error(&b, ask_generation(&b, "train", 9), EEXIST, "running");
        ASSERT_EQ(b.fake.stops, 0);
        expect_error(&b, ask_generation(&b, "", 9), EINVAL, "name");
}

/* The devices are looked at by launchd itself: who has one is named, and a stale lock goes only when nobody
 * has. */
static void test_devices(void) {
        _cleanup_bench_ struct bench b;
        struct stat st;

        bench_init(&b);
        scratch_write(&b.scratch, "tmp/libtpu_lockfile", "");
        scratch_link(&b.scratch, "proc/812/fd/3", "/dev/vfio/2");
        scratch_write(&b.scratch, "proc/812/cgroup", "0::/tpu-run-a.slice/tpu-run-a.service\n");
        scratch_write(&b.scratch, "proc/812/cmdline", "python3");
        expect_error(&b, ask_run(&b, "b", NULL, 0), EBUSY, "/dev/vfio/2 is in use by process 812");
        ASSERT_EQ(b.fake.starts, 0);
        ASSERT_OK(fstatat(b.host.root_fd, "tmp/libtpu_lockfile", &st, 0));
        ASSERT_OK(unlinkat(b.host.root_fd, "proc/812/fd/3", 0));
        start(&b, "b");
        ASSERT_EQ(fstatat(b.host.root_fd, "tmp/libtpu_lockfile", &st, 0), -1);
}

/* The host's own configuration is asked at each start. */
static void test_devices_of_the_host(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        start(&b, "a");
        ASSERT_STREQ(b.fake.devices, "tpu");
        scratch_write(&b.scratch, "etc/tpu-hostd/launchd.conf.d/10-site.conf",
                      "[Devices]\nAllow=/dev/x char-y*\n");
        start(&b, "b");
        ASSERT_STREQ(b.fake.devices, "tpu,/dev/x,char-y*");
        scratch_write(&b.scratch, "etc/tpu-hostd/launchd.conf.d/10-site.conf", "[Devices]\nPolicy=any\n");
        start(&b, "c");
        ASSERT_STREQ(b.fake.devices, "any");
}

/* Somebody works with the lock: then it is not stale, whatever has no device open. */
static void test_lock_in_use(void) {
        _cleanup_bench_ struct bench b;
        char path[512];
        struct stat st;
        int fd;

        bench_init(&b);
        scratch_write(&b.scratch, "tmp/libtpu_lockfile", "");
        scratch_path(&b.scratch, "tmp/libtpu_lockfile", path);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        ASSERT_TRUE(fd >= 0);
        ASSERT_OK(flock(fd, LOCK_EX));
        start(&b, "b");
        ASSERT_OK(fstatat(b.host.root_fd, "tmp/libtpu_lockfile", &st, 0));
        (void) close(fd);
}

/* The next generation waits for the devices, and begins when they are free. */
static void test_waits_for_devices(void) {
        _cleanup_bench_ struct bench b;
        int fd;

        bench_init(&b);
        (void) close(ask_generation(&b, "train", 1));
        runs_unit_events.started("train", "done", b.runs);
        fd = ask_generation(&b, "train", 2);
        scratch_link(&b.scratch, "proc/812/fd/3", "/dev/vfio/2");
        record(&b, "success", "killed", "TERM");
        runs_unit_events.gone("train", b.runs);
        for (unsigned i = 0; i < 5; i++)
                turn(&b);
        ASSERT_EQ(b.fake.starts, 1);
        ASSERT_OK(unlinkat(b.host.root_fd, "proc/812/fd/3", 0));
        wait_for_starts(&b, 2);
        runs_unit_events.started("train", "done", b.runs);
        expect_reply(&b, fd, 2, false, "running");
}

/* And not for ever: then the refusal names who has it. */
static void test_never_free(void) {
        Local__RunListReply *reply;
        _cleanup_bench_ struct bench b;
        int fd;

        bench_init(&b);
        (void) close(ask_generation(&b, "train", 1));
        runs_unit_events.started("train", "done", b.runs);
        fd = ask_generation(&b, "train", 2);
        scratch_link(&b.scratch, "proc/812/fd/3", "/dev/vfio/2");
        record(&b, "success", "killed", "TERM");
        runs_unit_events.gone("train", b.runs);
        b.now.boot += 61 * USEC_PER_SEC;
        expect_error(&b, fd, EBUSY, "/dev/vfio/2 is in use by process 812");
        reply = list(&b, 1);
        ASSERT_STREQ(reply->run[0]->state, "exited");
        local__run_list_reply__free_unpacked(reply, NULL);
}

static void expect_bad(struct bench *b, void (*spoil)(Local__RunRequest *q), const char *part) {
        Run__Spec s = spec_of_python((char[]){ "a" });
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;

        q.spec = &s;
        spoil(&q);
        expect_error(b, ask(b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), EINVAL, part);
}

static Local__Secret secret = LOCAL__SECRET__INIT, *secrets[] = { &secret };

static void bad_slice(Local__RunRequest *q) {
        q->slice = wire_text("a\nTPU_RUN=b");
}
static void bad_cpus(Local__RunRequest *q) {
        q->spec->cpus = wire_text("0-");
}
static void bad_signal(Local__RunRequest *q) {
        q->spec->preempt = wire_text("KILL");
}
static void bad_grace(Local__RunRequest *q) {
        q->spec->has_grace = true;
        q->spec->grace = 3600 * USEC_PER_SEC + 1;
}
static void bad_restarts(Local__RunRequest *q) {
        q->spec->has_restarts = true;
        q->spec->restarts = 1000001;
}
static void restarts_of_intent(Local__RunRequest *q) {
        q->generation = 1;
        q->spec->has_restarts = true;
        q->spec->restarts = 1;
}
static void bad_secret(Local__RunRequest *q) {
        secret.name = wire_text("LD_PRELOAD");
        secret.value = wire_text("s3cr3t");
        q->secret = secrets;
        q->n_secret = 1;
}
static void bad_devices(Local__RunRequest *q) {
        q->spec->devices = wire_text("/dev/x,gpu");
}

static void test_bad_specs(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        expect_bad(&b, bad_slice, "slice");
        expect_bad(&b, bad_cpus, "'0-'");
        expect_bad(&b, bad_signal, "'KILL'");
        expect_bad(&b, bad_grace, "grace");
        expect_bad(&b, bad_restarts, "restarts");
        expect_bad(&b, restarts_of_intent, "host");
        expect_bad(&b, bad_secret, "'LD_PRELOAD'");
        expect_bad(&b, bad_devices, "devices '/dev/x,gpu'");
        ASSERT_EQ(b.fake.starts, 0);
}

/* A secret is in one file of root's, in memory, for as long as the run: in no other file, and in no
 * answer. */
static void test_secret(void) {
        Run__Spec s = spec_of_python((char[]){ "a" });
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;
        _cleanup_free_ char *file = NULL;
        _cleanup_bench_ struct bench b;
        char path[512], text[64] = "";
        size_t len;
        struct stat st;
        int fd;

        bench_init(&b);
        secret.name = (char[]){ "API_KEY" };
        secret.value = (char[]){ "s3cr3t" };
        q.spec = &s;
        q.secret = secrets;
        q.n_secret = 1;
        (void) close(ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base));
        ASSERT_OK(fstatat(b.host.root_fd, "run/tpu-launchd/secrets/a", &st, 0));
        ASSERT_EQ(st.st_mode & 07777, 0400);
        fd = openat(b.host.root_fd, "run/tpu-launchd/secrets/a", O_RDONLY | O_CLOEXEC);
        ASSERT_EQ(read(fd, text, sizeof(text) - 1), (ssize_t) sizeof("API_KEY=s3cr3t"));
        (void) close(fd);
        ASSERT_STREQ(text, "API_KEY=s3cr3t");
        scratch_path(&b.scratch, "var/lib/tpu-launchd/runs", path);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_OK(durable_read(fd, "a", RUN_FILE_MAX, &file, &len));
        (void) close(fd);
        ASSERT_TRUE(memmem(file, len, "s3cr3t", 6) == NULL);
        runs_unit_events.started("a", "done", b.runs);
        record(&b, "success", "exited", "0");
        runs_unit_events.gone("a", b.runs);
        ASSERT_EQ(fstatat(b.host.root_fd, "run/tpu-launchd/secrets/a", &st, 0), -1);
}

int main(void) {
        void (*const tests[])(void) = {
                test_asked_again, test_higher_generation, test_overtaken, test_another_intent,
                        test_stop_by_generation,
                test_environment_of_a_gang, test_tried, test_watched, test_a_persons_run_is_not_replaced,
                test_devices, test_devices_of_the_host, test_lock_in_use, test_waits_for_devices,
                test_never_free, test_bad_specs, test_secret,
        };

        return bench_main(tests, ELEMENTSOF(tests));
}
