/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that others started, from the first walk to their end, as callers of tpu-launchd see them. */
#include "adopted.h"
#include "answer.h"
#include "launch-bench.h"
#include "process-tree.h"
#include "rights.h"

#define SESSION   "/user.slice/user-1000.slice/session-3.scope"
#define CONTAINER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct tree_process trainer = { 70, 1, .start = 90000, .control_group = SESSION,
                                             .command = "python3 /srv/train.py" };

static void expect_adopted(struct bench *b, const char *name, const char *state, const char *cause) {
        Local__RunListReply *r = list(b, 1);

        ASSERT_STREQ(r->run[0]->name, name);
        ASSERT_STREQ(r->run[0]->state, state);
        ASSERT_STREQ(r->run[0]->cause, cause);
        ASSERT_TRUE(r->run[0]->adopted);
        ASSERT_STREQ(r->run[0]->user, "uid0");
        ASSERT_STREQ(r->run[0]->devices, "/dev/accel0");
        local__run_list_reply__free_unpacked(r, NULL);
}

static struct adoption *begin(struct bench *b, const struct tree_process *process, const char *ignore) {
        struct device_settings s = { .adopt = ADOPT_YES };
        struct adoption *a;

        (void) snprintf(s.adopt_ignore, sizeof(s.adopt_ignore), "%s", ignore);
        tree_add(&b->scratch, process);
        tree_open(&b->scratch, 70, "/dev/accel0");
        ASSERT_OK(adoption_new(b->runs, &s, &a));
        return a;
}

static void look_at(struct bench *b, struct adoption *a, usec_t seconds) {
        b->now.boot = seconds * USEC_PER_SEC;
        adoption_look(a);
}

/* It began 900 s after the boot (100 ticks a second). Who only looks at the chips is gone in a minute. */
static void adopted_and_gone(void) {
        _cleanup_bench_ struct bench b;
        struct adoption *a;

        bench_init(&b);
        a = begin(&b, &trainer, "");
        look_at(&b, a, 950);
        local__run_list_reply__free_unpacked(list(&b, 0), NULL);
        look_at(&b, a, 960);
        expect_adopted(&b, "uid0-train", "running", "");
        look_at(&b, a, 970); /* again, and it is the same */
        expect_adopted(&b, "uid0-train", "running", "");
        tree_close(&b.scratch, 70);
        look_at(&b, a, 980);
        expect_adopted(&b, "uid0-train", "exited", "unknown");
        tree_open(&b.scratch, 70, "/dev/accel0"); /* and it takes them again */
        look_at(&b, a, 990);
        expect_adopted(&b, "uid0-train", "running", "");
        (void) adoption_free(a);
}

/* What was not started here is not ended here; the answer says who does. */
static void never_ended_by_us(void) {
        Local__StopRequest q = LOCAL__STOP_REQUEST__INIT;
        _cleanup_bench_ struct bench b;
        struct adoption *a;

        bench_init(&b);
        a = begin(&b, &trainer, "");
        look_at(&b, a, 1000);
        q.name = (char[]){ "uid0-train" };
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_STOP_REQUEST, &q.base), EPERM,
                     "ends only what it started");
        ASSERT_EQ(b.fake.stops, 0);
        expect_adopted(&b, "uid0-train", "running", "");
        (void) adoption_free(a);
}

/* A notice of a preemption: it gets no signal from us, and why it ended is known all the same. */
static void preempted(void) {
        Local__SignalRequest q = LOCAL__SIGNAL_REQUEST__INIT;
        _cleanup_bench_ struct bench b;
        Local__SignalReply *r;
        struct adoption *a;

        bench_init(&b);
        a = begin(&b, &trainer, "");
        look_at(&b, a, 1000);
        q.name = (char[]){ "uid0-train" };
        r = (Local__SignalReply *) take(&b, ask(&b, LOCAL__KIND__KIND_SIGNAL_REQUEST, &q.base),
                                        LOCAL__KIND__KIND_SIGNAL_REPLY, &local__signal_reply__descriptor);
        ASSERT_STREQ(r->done, "nothing: user uid0 started it without tpu-launchd");
        local__signal_reply__free_unpacked(r, NULL);
        ASSERT_EQ(b.fake.signalled, 0);
        tree_close(&b.scratch, 70);
        look_at(&b, a, 1010);
        expect_adopted(&b, "uid0-train", "exited", "preempted");
        (void) adoption_free(a);
}

/* Adopt=observe: tpu-hostd is not told of it, and may do nothing with it. */
static void seen_by_its_own_alone(void) {
        const struct device_settings s = { .adopt = ADOPT_OBSERVE };
        const struct caller hostd = { .uid = 997, .name = "tpu-hostd", .remote = true };
        _cleanup_bench_ struct bench b;
        struct run_list l;
        struct adoption *a;
        struct problem p;

        bench_init(&b);
        tree_add(&b.scratch, &trainer);
        tree_open(&b.scratch, 70, "/dev/accel0");
        ASSERT_OK(adoption_new(b.runs, &s, &a));
        look_at(&b, a, 1000);
        ASSERT_OK(run_list_make(b.runs, "", 0, &l));
        ASSERT_EQ(l.reply.n_run, 1);
        run_list_clear(&l);
        ASSERT_OK(run_list_make(b.runs, "", 997, &l));
        ASSERT_EQ(l.reply.n_run, 0);
        run_list_clear(&l);
        ASSERT_EQ(run_list_make(b.runs, "uid0-train", 997, &l), -ENOENT);
        run_list_clear(&l);
        ASSERT_EQ(rights_check(b.runs, &hostd, ACTION_CAPTURE, "uid0-train", &p), -ENOENT);
        ASSERT_STREQ(p.text, "there is no run 'uid0-train' on this host, nor any other");
        (void) adoption_free(a);
}

/* What it prints goes elsewhere: the answer says so, and where to look. */
static void lines_are_elsewhere(void) {
        static const struct {
                const char *group, *name, *remedy;
        } cases[] = {
                { SESSION, "uid0-train", "sudo readlink /proc/70/fd/1 # where it prints to" },
                { "/system.slice/trainer.service", "trainer", "sudo journalctl -u trainer.service" },
                { "/system.slice/docker-" CONTAINER ".scope", "docker-0123456789ab",
                  "sudo docker logs 0123456789ab" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Local__LinesRequest q = LOCAL__LINES_REQUEST__INIT;
                struct tree_process process = trainer;
                _cleanup_bench_ struct bench b;
                Local__Error *e;
                struct adoption *a;
                int fd;

                bench_init(&b);
                process.control_group = cases[i].group;
                a = begin(&b, &process, "");
                look_at(&b, a, 1000);
                q.name = wire_text(cases[i].name);
                fd = ask(&b, LOCAL__KIND__KIND_LINES_REQUEST, &q.base);
                e = (Local__Error *) take(&b, fd, LOCAL__KIND__KIND_ERROR, &local__error__descriptor);
                (void) close(fd);
                ASSERT_EQ(e->code, ENODATA);
                ASSERT_TRUE(strstr(e->text, "the lines only of what it started") != NULL);
                ASSERT_STREQ(e->remedy, cases[i].remedy);
                local__error__free_unpacked(e, NULL);
                (void) adoption_free(a);
        }
}

/* Its stacks are those of its main process and of what that started. A pid that is another process now is
 * not read. */
static void captured(void) {
        Local__CaptureRequest q = LOCAL__CAPTURE_REQUEST__INIT;
        Local__CaptureReply *r;
        _cleanup_bench_ struct bench b;
        struct tree_process other = trainer;
        struct adoption *a;
        int fd;

        bench_init(&b);
        scratch_write(&b.scratch, "tool", "#!/bin/sh\necho \"{$*}\"\n");
        ASSERT_OK(chmod(b.tool, 0755));
        a = begin(&b, &trainer, "");
        look_at(&b, a, 1000);
        q.name = (char[]){ "uid0-train" };
        fd = ask(&b, LOCAL__KIND__KIND_CAPTURE_REQUEST, &q.base);
        r = (Local__CaptureReply *) take(&b, fd, LOCAL__KIND__KIND_CAPTURE_REPLY,
                                         &local__capture_reply__descriptor);
        (void) close(fd);
        ASSERT_TRUE(r->capture.len == strlen("{--capture --children 70}\n") &&
                    memcmp(r->capture.data, "{--capture --children 70}\n", r->capture.len) == 0);
        local__capture_reply__free_unpacked(r, NULL);
        other.start = 95000;
        tree_add(&b.scratch, &other);
        b.now.boot += 5 * USEC_PER_SEC;
        expect_error(&b, ask(&b, LOCAL__KIND__KIND_CAPTURE_REQUEST, &q.base), ESRCH, "cannot be taken");
        look_at(&b, a, 1100); /* the walk sees one run end and another one begin */
        expect_adopted(&b, "uid0-train", "running", "");
        (void) adoption_free(a);
}

static void ignored(void) {
        _cleanup_bench_ struct bench b;
        struct adoption *a;

        bench_init(&b);
        a = begin(&b, &trainer, "jupyter* python3");
        look_at(&b, a, 1000);
        local__run_list_reply__free_unpacked(list(&b, 0), NULL);
        (void) adoption_free(a);
}

int main(void) {
        static void (*const tests[])(void) = { adopted_and_gone, never_ended_by_us, preempted,
                                               seen_by_its_own_alone, lines_are_elsewhere, captured,
                                               ignored };

        return bench_main(tests, ELEMENTSOF(tests));
}
