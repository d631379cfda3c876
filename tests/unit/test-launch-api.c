/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of tpu-launchd against runs with a backend of the test's: what a caller asks, what systemd is
 * asked, what is answered. */
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>

#include "api.h"
#include "handover.h"
#include "local.pb-c.h"
#include "scratch.h"
#include "state.h"
#include "test.h"

/* Remembers what it was asked; a test then lets the unit start or go. */
struct fake {
        unsigned starts, stops, kills, queries;
        int start_error;
        char name[64], id[64], user[64];
};

static int fake_start(void *backend, const struct unit_spec *s) {
        struct fake *f = backend;

        f->starts++;
        (void) snprintf(f->name, sizeof(f->name), "%s", s->name);
        (void) snprintf(f->id, sizeof(f->id), "%s", s->id);
        (void) snprintf(f->user, sizeof(f->user), "%s", s->user);
        return f->start_error;
}

static int fake_stop(void *backend, const char *name) {
        (void) name;
        ((struct fake *) backend)->stops++;
        return 0;
}

static int fake_kill(void *backend, const char *name) {
        (void) name;
        ((struct fake *) backend)->kills++;
        return 0;
}

static int fake_query(void *backend, const char *name) {
        (void) name;
        ((struct fake *) backend)->queries++;
        return 0;
}

static void fake_forget(void *backend, const char *name) {
        (void) backend;
        (void) name;
}

static const struct unit_backend fake_backend = { fake_start, fake_stop, fake_kill, fake_query,
                                                  fake_forget };

struct bench {
        struct scratch scratch;
        struct host host;
        struct clock_fixed now;
        struct fake fake;
        sd_event *event;
        struct api *api;
        struct runs *runs;
        struct frame_server *server;
        char socket[512], tool[512];
};

static void bench_up(struct bench *b) {
        int fd;

        ASSERT_OK(host_open(b->scratch.path, &b->host));
        b->host.clock = clock_from(&b->now);
        ASSERT_TRUE(sd_event_new(&b->event) >= 0);
        ASSERT_OK(api_new(&b->host, NULL, &b->api));
        ASSERT_OK(runs_new(b->event, &b->host, b->tool, &api_runs_events, b->api, &b->runs));
        api_attach(b->api, b->runs);
        runs_attach(b->runs, &fake_backend, &b->fake);
        fd = listen_socket(b->socket, 0600);
        ASSERT_TRUE(fd >= 0);
        ASSERT_OK(frame_server_new(b->event, fd, &api_frame_handlers, b->api, &b->server));
}

static void bench_down(struct bench *b) {
        b->server = frame_server_free(b->server);
        b->runs = runs_free(b->runs);
        b->api = api_free(b->api);
        b->event = sd_event_unref(b->event);
        host_close(&b->host);
}

static void bench_init(struct bench *b) {
        sigset_t mask;

        *b = (struct bench){ .scratch = scratch_new(),
                             .host = HOST_NULL,
                             .now = { .boot = 1000 * USEC_PER_SEC, .real = 1700000000 * USEC_PER_SEC } };
        ASSERT_OK(sigemptyset(&mask));
        ASSERT_OK(sigaddset(&mask, SIGCHLD));
        ASSERT_OK(sigprocmask(SIG_BLOCK, &mask, NULL));
        scratch_write(&b->scratch, "proc/sys/kernel/random/boot_id",
                      "11111111-2222-3333-4444-555555555555\n");
        scratch_write(&b->scratch, "proc/sys/kernel/hostname", "h0\n");
        scratch_write(&b->scratch, "var/lib/tpu-launchd/x", "");
        scratch_write(&b->scratch, "run/tpu-launchd/x", "");
        scratch_write(&b->scratch, "usr/bin/python3", "");
        scratch_write(&b->scratch, "etc/tpu-hostd/identity.conf.d/1.conf",
                      "[Identity]\nSliceName=s\nWorkerId=0\nWorkerHostnames=h0\n");
        scratch_path(&b->scratch, "sock", b->socket);
        scratch_path(&b->scratch, "tool", b->tool);
        bench_up(b);
}

static void bench_free(struct bench *b) {
        bench_down(b);
        scratch_free(&b->scratch);
}
#define _cleanup_bench_ _cleanup_(bench_free)

static void turn(struct bench *b) {
        while (sd_event_run(b->event, 20 * USEC_PER_MSEC) > 0)
                ;
}

static int ask(struct bench *b, uint16_t kind, const ProtobufCMessage *m) {
        int fd = frame_connect(b->socket);

        ASSERT_TRUE(fd >= 0);
        ASSERT_OK(frame_send(fd, kind, m, USEC_PER_SEC));
        turn(b);
        return fd;
}

/* Receives one frame while the loop that serves it turns: a long answer does not fit into a socket's buffer.
 */
static uint8_t *receive(struct bench *b, int fd, uint16_t *ret_kind, size_t *ret_len) {
        size_t n = 0, size = FRAME_MAX + 8;
        uint8_t *buf = malloc(size);
        uint32_t len;

        ASSERT_TRUE(buf != NULL);
        for (unsigned idle = 0; idle < 500; idle++) {
                ssize_t k = recv(fd, buf + n, size - n, MSG_DONTWAIT);

                ASSERT_TRUE(k > 0 || (k < 0 && errno == EAGAIN));
                n += k > 0 ? (size_t) k : 0;
                if (n >= 8) {
                        memcpy(&len, buf, sizeof(len));
                        memcpy(ret_kind, buf + 6, sizeof(*ret_kind));
                        *ret_len = len;
                        if (n == len + 8)
                                return buf;
                }
                (void) sd_event_run(b->event, 20 * USEC_PER_MSEC);
        }
        test_fail(__FILE__, __LINE__, "no whole frame after %zu bytes", n);
}

static ProtobufCMessage *take(struct bench *b, int fd, uint16_t kind, const ProtobufCMessageDescriptor *d) {
        _cleanup_free_ uint8_t *buf = NULL;
        ProtobufCMessage *m;
        uint16_t is = 0;
        size_t len = 0;

        buf = receive(b, fd, &is, &len);
        if (is != kind && is == LOCAL__KIND__KIND_ERROR) {
                Local__Error *e = local__error__unpack(NULL, len, buf + 8);

                test_fail(__FILE__, __LINE__, "error %d %s", e->code, e->text);
        }
        ASSERT_EQ(is, kind);
        m = protobuf_c_message_unpack(d, NULL, len, buf + 8);
        ASSERT_TRUE(m != NULL);
        return m;
}

static void expect_error(struct bench *b, int fd, int code, const char *part) {
        Local__Error *e = (Local__Error *) take(b, fd, LOCAL__KIND__KIND_ERROR, &local__error__descriptor);

        ASSERT_EQ(e->code, code);
        if (!strstr(e->text, part))
                test_fail(__FILE__, __LINE__, "\"%s\" is not in \"%s\"", part, e->text);
        ASSERT_TRUE(e->remedy[0] != '\0');
        local__error__free_unpacked(e, NULL);
        (void) close(fd);
}

static char *python[] = { (char[]){ "python3" }, (char[]){ "train.py" } };

static int ask_run(struct bench *b, const char *name, char **env, size_t n_env) {
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;
        _cleanup_free_ char *copy = strdup(name);

        q.name = copy;
        q.argv = python;
        q.n_argv = ELEMENTSOF(python);
        q.env = env;
        q.n_env = n_env;
        return ask(b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base);
}

static void start(struct bench *b, const char *name) {
        int fd = ask_run(b, name, NULL, 0);

        runs_unit_events.started(b->fake.name, "done", b->runs);
        local__run_reply__free_unpacked((Local__RunReply *) take(b, fd, LOCAL__KIND__KIND_RUN_REPLY,
                                                                 &local__run_reply__descriptor),
                                        NULL);
        (void) close(fd);
}

/* The only job in a list, to be freed with the reply. */
static Local__JobsReply *list(struct bench *b, size_t expected) {
        Local__JobsRequest q = LOCAL__JOBS_REQUEST__INIT;
        int fd = ask(b, LOCAL__KIND__KIND_JOBS_REQUEST, &q.base);
        Local__JobsReply *reply = (Local__JobsReply *) take(b, fd, LOCAL__KIND__KIND_JOBS_REPLY,
                                                            &local__jobs_reply__descriptor);

        (void) close(fd);
        ASSERT_EQ(reply->n_job, expected);
        return reply;
}

static void expect_job(struct bench *b, const char *state, const char *cause, const char *status) {
        Local__JobsReply *reply = list(b, 1);

        ASSERT_STREQ(reply->job[0]->state, state);
        ASSERT_STREQ(reply->job[0]->cause, cause);
        ASSERT_STREQ(reply->job[0]->status, status);
        local__jobs_reply__free_unpacked(reply, NULL);
}

static void record(struct bench *b, const char *result, const char *code, const char *status) {
        _cleanup_close_ int exits = state_open(&b->host, STATE_EXITS);
        struct exit_record r = { .real = 7 };

        (void) snprintf(r.id, sizeof(r.id), "%.32s", b->fake.id);
        (void) snprintf(r.result, sizeof(r.result), "%s", result);
        (void) snprintf(r.code, sizeof(r.code), "%s", code);
        (void) snprintf(r.status, sizeof(r.status), "%s", status);
        ASSERT_OK(exit_record_write(exits, b->fake.name, &r));
}

static void test_run_and_exit(void) {
        char *env[] = { (char[]){ "TPU_WORKER_ID=9" }, (char[]){ "SECRET=s3cr3t" } };
        _cleanup_bench_ struct bench b;
        Local__RunReply *reply;
        int fd;

        bench_init(&b);
        fd = ask_run(&b, "", env, 2);
        ASSERT_EQ(b.fake.starts, 1);
        ASSERT_STREQ(b.fake.name, "run-1");
        ASSERT_STREQ(b.fake.user, getpwuid(getuid())->pw_name);
        expect_job(&b, "starting", "", "");
        runs_unit_events.started("run-1", "done", b.runs);
        reply = (Local__RunReply *) take(&b, fd, LOCAL__KIND__KIND_RUN_REPLY, &local__run_reply__descriptor);
        ASSERT_STREQ(reply->unit, "tpu-run-run-1.service");
        ASSERT_EQ(reply->n_conflict, 1);
        ASSERT_STREQ(reply->conflict[0], "TPU_WORKER_ID: yours '9' kept, ours would be '0' (worker-id from "
                                         "/etc/tpu-hostd/identity.conf.d/1.conf:3)");
        ASSERT_TRUE(startswith(reply->malloc, "glibc (auto: "));
        local__run_reply__free_unpacked(reply, NULL);
        (void) close(fd);
        expect_job(&b, "running", "", "");
        record(&b, "exit-code", "exited", "3");
        runs_unit_events.gone("run-1", b.runs);
        expect_job(&b, "exited", "exit-code", "3");
        /* The next one without a name is another. */
        fd = ask_run(&b, "", NULL, 0);
        ASSERT_STREQ(b.fake.name, "run-2");
        (void) close(fd);
}

/* Whatever order systemd's news come in, the caller gets an answer. */
static void test_gone_before_started(void) {
        _cleanup_bench_ struct bench b;
        int fd;

        bench_init(&b);
        fd = ask_run(&b, "a", NULL, 0);
        record(&b, "exit-code", "exited", "203");
        runs_unit_events.gone("a", b.runs);
        expect_error(&b, fd, EIO, "exit-code");
        expect_job(&b, "exited", "exit-code", "203");
}

/* The caller that asked is gone: its run is as alive as before, and nothing of ours points to it. */
static void test_caller_goes_away(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        (void) close(ask_run(&b, "a", NULL, 0));
        turn(&b);
        runs_unit_events.started("a", "done", b.runs);
        expect_job(&b, "running", "", "");
}

static void test_gone_without_record_is_unknown(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        start(&b, "a");
        runs_unit_events.gone("a", b.runs);
        expect_job(&b, "exited", "unknown", "");
        /* A record of another run of the same name changes nothing. */
        start(&b, "a");
        (void) snprintf(b.fake.id, sizeof(b.fake.id), "ffffffffffffffffffffffffffffffff");
        record(&b, "success", "exited", "0");
        runs_unit_events.gone("a", b.runs);
        expect_job(&b, "exited", "unknown", "");
}

static void test_restart(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        start(&b, "a");
        bench_down(&b);
        bench_up(&b);
        runs_unit_events.connected(b.runs);
        ASSERT_EQ(b.fake.queries, 1);
        expect_job(&b, "running", "", "");
        ASSERT_EQ(b.fake.queries, 2); /* what is not known yet is asked for when somebody wants to know */
        runs_unit_events.running("a", 42, "/tpu.slice/tpu-run.slice/tpu-run-a.slice/tpu-run-a.service",
                                 b.runs);
        {
                Local__JobsReply *reply = list(&b, 1);

                ASSERT_EQ(reply->job[0]->main_pid, 42);
                ASSERT_STREQ(reply->job[0]->control_group, "/tpu.slice/tpu-run.slice/tpu-run-a.slice");
                local__jobs_reply__free_unpacked(reply, NULL);
        }
        /* It ends while nobody of ours lives. */
        bench_down(&b);
        ASSERT_OK(host_open(b.scratch.path, &b.host));
        record(&b, "signal", "killed", "KILL");
        host_close(&b.host);
        bench_up(&b);
        expect_job(&b, "exited", "signal", "KILL");
        /* And after a boot, a run without a record is of unknown cause at once. */
        start(&b, "a");
        bench_down(&b);
        scratch_write(&b.scratch, "proc/sys/kernel/random/boot_id",
                      "99999999-2222-3333-4444-555555555555\n");
        bench_up(&b);
        expect_job(&b, "exited", "unknown", "");
}

static void test_refused_by_systemd(void) {
        _cleanup_bench_ struct bench b;
        struct stat st;
        int fd;

        bench_init(&b);
        start(&b, "a");
        record(&b, "success", "exited", "0");
        runs_unit_events.gone("a", b.runs);
        fd = ask_run(&b, "a", NULL, 0);
        runs_unit_events.refused("a", -EEXIST, "Unit exists", b.runs);
        expect_error(&b, fd, EEXIST, "tpu-run-a.service");
        expect_job(&b, "exited", "success", "0"); /* the run before it is still known */
        bench_down(&b);
        bench_up(&b);
        expect_job(&b, "exited", "success", "0");

        b.fake.start_error = -ENOTCONN;
        expect_error(&b, ask_run(&b, "b", NULL, 0), ENOTCONN, "system bus");
        local__jobs_reply__free_unpacked(list(&b, 1), NULL);
        ASSERT_EQ(fstatat(b.host.root_fd, "var/lib/tpu-launchd/jobs/b", &st, 0), -1);
        ASSERT_EQ(fstatat(b.host.root_fd, "run/tpu-launchd/handover/b", &st, 0), -1);
}

static void test_bad_requests(void) {
        char *bad_env[] = { (char[]){ "1=2" } }, *nothing[] = { (char[]){ "no-such-command" } };
        _cleanup_bench_ struct bench b;
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;
        Local__StopRequest s = LOCAL__STOP_REQUEST__INIT;
        Local__CaptureRequest c = LOCAL__CAPTURE_REQUEST__INIT;

        bench_init(&b);
        expect_error(&b, ask_run(&b, "A/b", NULL, 0), EINVAL, "'A/b'");
        expect_error(&b, ask_run(&b, "a", bad_env, 1), EINVAL, "'1'");
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), EINVAL, "no command");
        q.argv = nothing;
        q.n_argv = 1;
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), ENOENT, "no-such-command");
        q.argv = python;
        q.framework = (char[]){ "ray" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), EINVAL, "'ray'");
        q.framework = (char[]){ "jax" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), ENODATA, "accelerator-type");
        q.framework = (char[]){ "" };
        q.malloc = (char[]){ "tcmalloc" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), ENOENT, "libtcmalloc");
        q.malloc = (char[]){ "" };
        q.directory = (char[]){ "/not/there" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), ENOENT, "/not/there");
        q.directory = (char[]){ "" };
        q.user = (char[]){ "no-such-user" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base), ESRCH, "no-such-user");
        expect_error(&b, ask(&b, 99, &q.base), EBADMSG, "99");
        s.name = c.name = (char[]){ "ghost" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_STOP_REQUEST, &s.base), ENOENT, "ghost");
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_CAPTURE_REQUEST, &c.base), ENOENT, "ghost");
        ASSERT_EQ(b.fake.starts, 0);
        local__jobs_reply__free_unpacked(list(&b, 0), NULL);
}

static void test_stop(void) {
        Local__StopRequest q = LOCAL__STOP_REQUEST__INIT;
        _cleanup_bench_ struct bench b;
        int fd;

        bench_init(&b);
        start(&b, "a");
        expect_error(&b, ask_run(&b, "a", NULL, 0), EEXIST, "run a is running");
        q.name = (char[]){ "a" };
        q.grace_usec = 10 * USEC_PER_MSEC;
        fd = ask(&b, LOCAL__KIND__KIND_STOP_REQUEST, &q.base);
        ASSERT_EQ(b.fake.stops, 1);
        usleep(50000);
        turn(&b);
        ASSERT_EQ(b.fake.kills, 1);
        record(&b, "signal", "killed", "KILL");
        runs_unit_events.gone("a", b.runs);
        local__stop_reply__free_unpacked((Local__StopReply *) take(&b, fd, LOCAL__KIND__KIND_STOP_REPLY,
                                                                   &local__stop_reply__descriptor),
                                         NULL);
        (void) close(fd);
        ASSERT_EQ(b.fake.stops, 2); /* what is left in the slice goes, too */
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_STOP_REQUEST, &q.base), EALREADY, "ended already");
}

static void write_tool(struct bench *b, const char *script) {
        scratch_write(&b->scratch, "tool", script);
        ASSERT_OK(chmod(b->tool, 0755));
}

static int ask_capture(struct bench *b) {
        Local__CaptureRequest q = LOCAL__CAPTURE_REQUEST__INIT;

        q.name = (char[]){ "a" };
        b->now.boot += 2 * USEC_PER_SEC;
        return ask(b, LOCAL__KIND__KIND_CAPTURE_REQUEST, &q.base);
}

static Local__CaptureReply *captured(struct bench *b, int fd) {
        Local__CaptureReply *r = (Local__CaptureReply *) take(b, fd, LOCAL__KIND__KIND_CAPTURE_REPLY,
                                                              &local__capture_reply__descriptor);

        (void) close(fd);
        return r;
}

static void test_capture(void) {
        _cleanup_bench_ struct bench b;
        Local__CaptureReply *r;
        int fd;

        bench_init(&b);
        scratch_write(&b.scratch, "sys/fs/cgroup/s.slice/x.service/cgroup.procs", "10\n11\n");
        write_tool(&b, "#!/bin/sh\necho \"process $1 'x'\nthread 1\n  process no\nprocess $2\nthread "
                       "2\nthread 3\"\n");
        start(&b, "a");
        expect_error(&b, ask_capture(&b), EAGAIN, "control group");
        runs_unit_events.running("a", 10, "/s.slice/x.service", b.runs);
        r = captured(&b, ask_capture(&b));
        ASSERT_TRUE(startswith(r->text, "process 10 'x'\n"));
        ASSERT_EQ(r->processes, 2);
        ASSERT_EQ(r->threads, 3);
        ASSERT_EQ(r->taken_real_usec, b.now.real);
        local__capture_reply__free_unpacked(r, NULL);
        b.now.boot -= 2 * USEC_PER_SEC; /* no time has passed */
        expect_error(&b, ask_capture(&b), EBUSY, "a moment ago");

        write_tool(&b, "#!/bin/sh\necho cannot >&2\nexit 3\n");
        expect_error(&b, ask_capture(&b), ESRCH, "cannot");
        write_tool(&b, "#!/bin/sh\necho thread; kill -9 $$\n");
        expect_error(&b, ask_capture(&b), EIO, "tpu-stack failed");
        /* More text than a frame holds is cut, and the tool that goes on writing ends. */
        write_tool(&b, "#!/bin/sh\nexec yes 'process 1'\n");
        fd = ask_capture(&b);
        for (int i = 0; i < 100; i++)
                turn(&b);
        r = captured(&b, fd);
        ASSERT_EQ(strlen(r->text), CAPTURE_TEXT_MAX);
        local__capture_reply__free_unpacked(r, NULL);
}

/* A tool that hangs is killed, the caller is told, and the next capture works. */
static void test_capture_hangs(void) {
        _cleanup_bench_ struct bench b;
        int fd;

        bench_init(&b);
        scratch_write(&b.scratch, "sys/fs/cgroup/s.slice/x.service/cgroup.procs", "10\n");
        write_tool(&b, "#!/bin/sh\nexec sleep 1000\n");
        start(&b, "a");
        runs_unit_events.running("a", 10, "/s.slice/x.service", b.runs);
        fd = ask_capture(&b);
        expect_error(&b, ask_capture(&b), EBUSY, "under way");
        for (int i = 0; i < 60; i++)
                (void) sd_event_run(b.event, 100 * USEC_PER_MSEC);
        expect_error(&b, fd, ETIMEDOUT, "within 5 s");
        write_tool(&b, "#!/bin/sh\necho 'process 10'\n");
        local__capture_reply__free_unpacked(captured(&b, ask_capture(&b)), NULL);
}

/* What ended longest ago is forgotten, with its files. */
static void test_prune(void) {
        _cleanup_bench_ struct bench b;
        struct stat st;

        bench_init(&b);
        for (unsigned i = 0; i < JOBS_KEPT + 3; i++) {
                char name[32];

                (void) snprintf(name, sizeof(name), "n%u", i);
                b.now.real += USEC_PER_SEC;
                start(&b, name);
                record(&b, "success", "exited", "0");
                runs_unit_events.gone(name, b.runs);
        }
        local__jobs_reply__free_unpacked(list(&b, JOBS_KEPT), NULL);
        ASSERT_EQ(fstatat(b.host.root_fd, "var/lib/tpu-launchd/jobs/n2", &st, 0), -1);
        ASSERT_EQ(fstatat(b.host.root_fd, "var/lib/tpu-launchd/exits/n2", &st, 0), -1);
        ASSERT_OK(fstatat(b.host.root_fd, "var/lib/tpu-launchd/jobs/n3", &st, 0));
        ASSERT_EQ(st.st_mode & 07777, 0600); /* it may hold secrets */
}

int main(void) {
        void (*const tests[])(void) = { test_run_and_exit,
                                        test_gone_before_started,
                                        test_caller_goes_away,
                                        test_gone_without_record_is_unknown,
                                        test_restart,
                                        test_refused_by_systemd,
                                        test_bad_requests,
                                        test_stop,
                                        test_capture,
                                        test_capture_hangs,
                                        test_prune };

        if (getuid() != 0) {
                printf("skipped: only root may start runs without a group\n");
                return 77;
        }
        for (size_t i = 0; i < ELEMENTSOF(tests); i++)
                tests[i]();
        printf("%zu tests passed\n", ELEMENTSOF(tests));
        return 0;
}
