/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * For tests of tpu-launchd: its frames and runs in a host of the test's, with a backend that remembers what
 * it was asked; a test then lets the unit start or go.
 */
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>

#include "api.h"
#include "handover.h"
#include "local.pb-c.h"
#include "scratch.h"
#include "test.h"

/* Remembers what it was asked; a test then lets the unit start or go. */
struct fake {
        unsigned starts, stops, queries, besides;
        int signalled;
        int start_error;
        char name[64], id[64], user[64];
        char devices[256]; /* the key of the run, with what the host adds */
};

static inline int fake_start(void *backend, const struct unit_spec *s) {
        struct fake *f = backend;

        f->starts++;
        (void) snprintf(f->name, sizeof(f->name), "%s", s->kept->name);
        (void) snprintf(f->id, sizeof(f->id), "%s", s->kept->id);
        (void) snprintf(f->user, sizeof(f->user), "%s", s->kept->user);
        (void) snprintf(f->devices, sizeof(f->devices), "%s", s->kept->spec->devices);
        return f->start_error;
}

static inline int fake_stop(void *backend, const char *name) {
        (void) name;
        ((struct fake *) backend)->stops++;
        return 0;
}

static inline int fake_query(void *backend, const char *name) {
        (void) name;
        ((struct fake *) backend)->queries++;
        return 0;
}

static inline int fake_signal(void *backend, const char *name, int number) {
        (void) name;
        ((struct fake *) backend)->signalled = number;
        return 0;
}

static inline int fake_beside(void *backend, const struct unit_spec *s) {
        (void) s;
        ((struct fake *) backend)->besides++;
        return 0;
}

static const struct unit_backend fake_backend = { .start = fake_start,
                                                   .stop = fake_stop,
                                                   .signal = fake_signal,
                                                   .beside = fake_beside,
                                                   .query = fake_query };

struct bench {
        struct scratch scratch;
        struct host host;
        struct clock_fixed now;
        struct fake fake;
        sd_event *event;
        struct launch_api *api;
        struct runs *runs;
        struct frame_server *server;
        char socket[512], tool[512];
};

static inline void bench_up(struct bench *b) {
        int fd;

        ASSERT_OK(host_open(b->scratch.path, &b->host));
        b->host.clock = clock_from(&b->now);
        ASSERT_TRUE(sd_event_new(&b->event) >= 0);
        ASSERT_OK(api_new(b->event, &b->host, NULL, &b->api));
        ASSERT_OK(runs_new(b->event, &b->host, b->tool, &api_runs_events, b->api, &b->runs));
        api_attach(b->api, b->runs);
        runs_attach(b->runs, &fake_backend, &b->fake);
        fd = listen_socket(b->socket, 0600);
        ASSERT_TRUE(fd >= 0);
        ASSERT_OK(frame_server_new(b->event, fd, &api_frame_handlers, b->api, &b->server));
}

static inline void bench_down(struct bench *b) {
        b->server = frame_server_free(b->server);
        b->runs = runs_free(b->runs);
        b->api = api_free(b->api);
        b->event = sd_event_unref(b->event);
        host_close(&b->host);
}

static inline void bench_init(struct bench *b) {
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
        scratch_write(&b->scratch, "run/systemd/system/x", ""); /* systemd is its first process */
        scratch_write(&b->scratch, "usr/bin/python3", "");
        scratch_write(&b->scratch, "etc/tpu-hostd/identity.conf.d/1.conf",
                      "[Identity]\nSliceName=s\nWorkerId=0\nWorkerHostnames=h0\n");
        scratch_path(&b->scratch, "sock", b->socket);
        scratch_path(&b->scratch, "tool", b->tool);
        bench_up(b);
}

static inline void bench_free(struct bench *b) {
        bench_down(b);
        scratch_free(&b->scratch);
}
#define _cleanup_bench_ _cleanup_(bench_free)

static inline void turn(struct bench *b) {
        while (sd_event_run(b->event, 20 * USEC_PER_MSEC) > 0)
                ;
}

static inline size_t count_children(void) {
        _cleanup_fclose_ FILE *f = fopen("/proc/thread-self/children", "re");
        size_t n = 0;
        int pid;

        ASSERT_TRUE(f != NULL);
        while (fscanf(f, "%d", &pid) == 1)
                n++;
        return n;
}

/* What is found out beside the loop (questions.h) is known then. others: children that were there before. */
static inline void turn_until_known(struct bench *b, size_t others) {
        turn(b);
        for (unsigned i = 0; count_children() > others; i++) {
                ASSERT_TRUE(i < 500);
                turn(b);
        }
}

static inline int ask(struct bench *b, uint16_t kind, const ProtobufCMessage *m) {
        int fd = frame_connect(b->socket);
        size_t children = count_children();

        ASSERT_TRUE(fd >= 0);
        ASSERT_OK(frame_send(fd, kind, m, USEC_PER_SEC));
        if (kind == LOCAL__KIND__KIND_RUN_REQUEST || kind == LOCAL__KIND__KIND_CHECK_REQUEST)
                turn_until_known(b, children);
        else
                turn(b);
        return fd;
}

/* Receives one frame while the loop that serves it turns: a long answer does not fit into a socket's buffer.
 */
static inline uint8_t *receive(struct bench *b, int fd, uint16_t *ret_kind, size_t *ret_len) {
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

static inline ProtobufCMessage *take(struct bench *b, int fd, uint16_t kind,
                                     const ProtobufCMessageDescriptor *d) {
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

static inline void expect_error(struct bench *b, int fd, int code, const char *part) {
        Local__Error *e = (Local__Error *) take(b, fd, LOCAL__KIND__KIND_ERROR, &local__error__descriptor);

        ASSERT_EQ(e->code, code);
        if (!strstr(e->text, part))
                test_fail(__FILE__, __LINE__, "\"%s\" is not in \"%s\"", part, e->text);
        ASSERT_TRUE(e->remedy[0] != '\0');
        local__error__free_unpacked(e, NULL);
        (void) close(fd);
}

static char *python[] = { (char[]){ "python3" }, (char[]){ "train.py" } };

/* The least that a run is asked for with. name: borrowed. */
static inline Run__Spec spec_of_python(char *name) {
        Run__Spec s = RUN__SPEC__INIT;

        s.name = name;
        s.argv = python;
        s.n_argv = ELEMENTSOF(python);
        return s;
}

static inline int ask_run(struct bench *b, const char *name, char **env, size_t n_env) {
        Local__RunRequest q = LOCAL__RUN_REQUEST__INIT;
        _cleanup_free_ char *copy = strdup(name);
        Run__Spec s = spec_of_python(copy);

        s.env = env;
        s.n_env = n_env;
        q.spec = &s;
        return ask(b, LOCAL__KIND__KIND_RUN_REQUEST, &q.base);
}

static inline void start(struct bench *b, const char *name) {
        int fd = ask_run(b, name, NULL, 0);

        runs_unit_events.started(b->fake.name, "done", b->runs);
        local__run_reply__free_unpacked((Local__RunReply *) take(b, fd, LOCAL__KIND__KIND_RUN_REPLY,
                                                                 &local__run_reply__descriptor),
                                        NULL);
        (void) close(fd);
}

/* The only run in a list, to be freed with the reply. */
static inline Local__RunListReply *list(struct bench *b, size_t expected) {
        Local__RunListRequest q = LOCAL__RUN_LIST_REQUEST__INIT;
        int fd = ask(b, LOCAL__KIND__KIND_RUN_LIST_REQUEST, &q.base);
        Local__RunListReply *reply = (Local__RunListReply *) take(b, fd, LOCAL__KIND__KIND_RUN_LIST_REPLY,
                                                                  &local__run_list_reply__descriptor);

        (void) close(fd);
        ASSERT_EQ(reply->n_run, expected);
        return reply;
}

static inline void expect_run(struct bench *b, const char *state, const char *cause, const char *status) {
        Local__RunListReply *reply = list(b, 1);

        ASSERT_STREQ(reply->run[0]->state, state);
        ASSERT_STREQ(reply->run[0]->cause, cause);
        ASSERT_STREQ(reply->run[0]->status, status);
        local__run_list_reply__free_unpacked(reply, NULL);
}

static inline void record(struct bench *b, const char *result, const char *code, const char *status) {
        _cleanup_close_ int exits = host_open_file(&b->host, STATE_EXITS, O_RDONLY | O_DIRECTORY);
        struct exit_record r = { .real = 7, .boot = b->now.boot };

        (void) snprintf(r.id, sizeof(r.id), "%.32s", b->fake.id);
        (void) snprintf(r.result, sizeof(r.result), "%s", result);
        (void) snprintf(r.code, sizeof(r.code), "%s", code);
        (void) snprintf(r.status, sizeof(r.status), "%s", status);
        ASSERT_OK(exit_record_write(exits, b->fake.name, &r));
}


/* The main() of a test program: only root may start runs without a group. */
static inline int bench_main(void (*const tests[])(void), size_t n) {
        if (getuid() != 0) {
                printf("skipped: only root may start runs without a group\n");
                return 77;
        }
        for (size_t i = 0; i < n; i++)
                tests[i]();
        printf("%zu tests passed\n", n);
        return 0;
}
