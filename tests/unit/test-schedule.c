/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes that can hang: the loop goes on while their worker does not answer, it is killed at its timeout,
 * never doubled, and left alone when it cannot be killed. The worker is a script of the test's, the wait a
 * fifo that nobody writes to; kill(2) is wrapped, so that a kill can be made to do nothing, as in
 * uninterruptible sleep.
 */
#include <signal.h>
#include <sys/wait.h>

#include "schedule.h"
#include "scratch.h"

int __real_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number);

/* The wrapped call has no other way to know them. */
static bool kill_works = true;
static pid_t last_killed;

int __wrap_kill(pid_t pid, int number) {
        last_killed = pid;
        return kill_works ? __real_kill(pid, number) : 0;
}

static int never(const struct host *h, const struct probe_context *c, struct sink *s) {
        (void) h;
        (void) c;
        (void) s;
        test_fail(__FILE__, __LINE__, "%s", "a probe that blocks ran in this process");
}

static int quick_run(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct finding f;

        (void) h;
        (void) c;
        finding_init(&f, "quick", "");
        f.verdict = VERDICT_OK;
        s->finding(s, &f);
        return 0;
}

static const struct probe slow = { .name = "slow",
                                   .summary = "x",
                                   .interval = 60 * USEC_PER_SEC,
                                   .timeout = 300 * USEC_PER_MSEC,
                                   .blocks = true,
                                   .run = never };
static const struct probe quick = { .name = "quick",
                                    .summary = "x",
                                    .interval = 20 * USEC_PER_MSEC,
                                    .timeout = USEC_PER_SEC,
                                    .run = quick_run };
static const struct probe *const probes[] = { &slow, &quick, NULL };

struct bench {
        struct scratch scratch;
        struct host host;
        struct worker_program program;
        char path[512], fifo[512];
        sd_event *event;
        struct schedule *schedule;
        struct finding last; /* of slow */
        char sample[64];
        unsigned findings, done, whole, quick;
};

static void on_finding(unsigned source, unsigned run, const struct finding *f, void *userdata) {
        struct bench *b = userdata;

        (void) run;
        if (source == 0) {
                b->last = *f;
                b->findings++;
        } else
                b->quick++;
}

static void on_sample(unsigned source, unsigned run, const struct sample *m, void *userdata) {
        struct bench *b = userdata;

        (void) source;
        (void) run;
        (void) snprintf(b->sample, sizeof(b->sample), "%s{%s=%s} %" PRId64, m->name, m->keys[0],
                        m->values[0], m->i);
}

static void on_done(unsigned source, unsigned run, bool whole, void *userdata) {
        struct bench *b = userdata;

        (void) run;
        b->done += source == 0;
        b->whole += source == 0 && whole;
}

static const struct schedule_handlers handlers = { on_finding, on_sample, on_done };

static void up(struct bench *b, const char *script) {
        static const struct probe_context context = { 0 };
        char text[2048];
        sigset_t mask;

        *b = (struct bench){ .scratch = scratch_new(), .host = HOST_NULL };
        kill_works = true;
        ASSERT_OK(sigemptyset(&mask));
        ASSERT_OK(sigaddset(&mask, SIGCHLD));
        ASSERT_OK(sigprocmask(SIG_BLOCK, &mask, NULL));
        scratch_path(&b->scratch, "fifo", b->fifo);
        ASSERT_OK(mkfifo(b->fifo, 0600));
        (void) snprintf(text, sizeof(text), "#!/bin/sh\necho $$ >>%s/pids\n%s\n", b->scratch.path, script);
        scratch_write(&b->scratch, "worker", text);
        scratch_path(&b->scratch, "worker", b->path);
        ASSERT_OK(chmod(b->path, 0700));
        b->program.path = b->path;
        ASSERT_OK(host_open(b->scratch.path, &b->host));
        ASSERT_TRUE(sd_event_new(&b->event) >= 0);
        ASSERT_OK(schedule_new(b->event, probes, &b->program, 0, &b->host, &context, &handlers, b,
                               &b->schedule));
}

static void down(struct bench *b) {
        b->schedule = schedule_free(b->schedule);
        b->event = sd_event_unref(b->event);
        host_close(&b->host);
        scratch_free(&b->scratch);
}

static void turn(struct bench *b, usec_t span, unsigned until_done) {
        usec_t end = host_now(&b->host) + span;

        while (host_now(&b->host) < end && b->done < until_done)
                ASSERT_TRUE(sd_event_run(b->event, 5 * USEC_PER_MSEC) >= 0);
}

static size_t workers_started(struct bench *b) {
        char text[4096];
        size_t n = 0;

        if (host_read(&b->host, "/pids", text, sizeof(text), NULL) < 0 || !text[0])
                return 0;
        for (const char *p = text; p; p = strchr(p + 1, '\n'))
                n++;
        return n;
}

static void answers(void) {
        struct bench b;

        up(&b, "echo "
               "'{\"finding\":{\"verdict\":\"WARN\",\"check\":\"slow.x\",\"subject\":\"s\",\"found\":\"f\","
               "\"wanted\":\"\","
               "\"source\":\"\",\"reason\":\"\",\"remedy\":\"\"}}'\n"
               "echo "
               "'{\"sample\":{\"name\":\"tpu.nic.mtu\",\"value\":7,\"values\":[\"v\"]}}'\n"
               "echo '{\"done\":0}'");
        turn(&b, 5 * USEC_PER_SEC, 1);
        ASSERT_EQ(b.whole, 1);
        ASSERT_STREQ(b.last.check, "slow.x");
        ASSERT_EQ(b.last.verdict, VERDICT_WARN);
        ASSERT_STREQ(b.sample, "tpu.nic.mtu{network.interface.name=v} 7");
        schedule_run_all(b.schedule);
        turn(&b, 5 * USEC_PER_SEC, 2);
        ASSERT_EQ(b.whole, 2);
        ASSERT_EQ(workers_started(&b), 2);
        down(&b);
}

static void hangs(void) {
        struct bench b;
        unsigned before;

        up(&b, "read x <${0%/*}/fifo");
        before = b.quick;
        turn(&b, 100 * USEC_PER_MSEC, 1);
        ASSERT_EQ(b.done, 0);
        ASSERT_TRUE(b.quick > before); /* the loop goes on */
        schedule_run_all(b.schedule);
        schedule_run_all(b.schedule);
        turn(&b, 5 * USEC_PER_SEC, 1);
        ASSERT_EQ(workers_started(&b), 1); /* never doubled */
        ASSERT_EQ(b.whole, 0);
        ASSERT_EQ(b.last.verdict, VERDICT_UNKNOWN);
        ASSERT_TRUE(strstr(b.last.reason, "no answer within") && !strstr(b.last.reason, "left alone"));
        ASSERT_EQ(waitpid(last_killed, NULL, WNOHANG), -1); /* and reaped */
        schedule_run_all(b.schedule);
        turn(&b, 5 * USEC_PER_SEC, 2);
        ASSERT_EQ(workers_started(&b), 2); /* the next look is a new one */
        down(&b);
}

/* As in uninterruptible sleep: SIGKILL does not end it. */
static void cannot_be_killed(void) {
        struct bench b;
        pid_t stuck;

        up(&b, "exec sleep 1000");
        kill_works = false;
        turn(&b, 5 * USEC_PER_SEC, 1);
        ASSERT_EQ(b.done, 1);
        ASSERT_EQ(b.last.verdict, VERDICT_UNKNOWN);
        ASSERT_TRUE(strstr(b.last.reason, "left alone") != NULL);
        stuck = last_killed;
        schedule_run_all(b.schedule);
        turn(&b, 700 * USEC_PER_MSEC, 2);
        ASSERT_EQ(workers_started(&b), 1); /* left alone, and not doubled */
        ASSERT_EQ(b.done, 1);
        kill_works = true;
        ASSERT_OK(__real_kill(stuck, SIGKILL)); /* the file system answers again */
        turn(&b, 300 * USEC_PER_MSEC, 2);
        ASSERT_EQ(b.done, 1); /* its end is no second answer */
        schedule_run_all(b.schedule);
        turn(&b, 5 * USEC_PER_SEC, 2);
        ASSERT_EQ(workers_started(&b), 2);
        down(&b);
}

static void bad_answers(void) {
        static const char *const scripts[] = {
                "exit 1",
                "echo garbage",
                "echo '{\"finding\":{}}'",
                "echo '{\"sample\":{\"name\":1}}'; exec sleep 1000",
                "echo '{\"sample\":{\"name\":\"n\",\"value\":7,\"values\":[]}}'; exec sleep 1000",
                "head -c 100000 /dev/zero | tr '\\0' x; exec sleep 1000",
                "echo '{\"done\":-5}'",
                "kill -SEGV $$",
        };

        for (size_t i = 0; i < ELEMENTSOF(scripts); i++) {
                struct bench b;

                up(&b, scripts[i]);
                turn(&b, 5 * USEC_PER_SEC, 1);
                if (b.done != 1 || b.whole != 0 || b.last.verdict != VERDICT_UNKNOWN || !b.last.reason[0])
                        test_fail(__FILE__, __LINE__, "script %zu: %s", i, b.last.reason);
                down(&b);
        }
}

static void no_program(void) {
        struct bench b;

        up(&b, "true");
        turn(&b, 5 * USEC_PER_SEC, 1);
        ASSERT_OK(unlink(b.path));
        schedule_run_all(b.schedule);
        ASSERT_EQ(b.done, 2);
        ASSERT_TRUE(strstr(b.last.reason, "No such file") != NULL);
        down(&b);
}

/* Only what is due about now. The loop does not run here: no timer can take part. */
static void goes_along(void) {
        struct bench b;

        up(&b, "exec sleep 1000");
        ASSERT_EQ(b.quick, 1);
        schedule_go_along(b.schedule);
        ASSERT_EQ(b.quick, 1);
        schedule_set_interval(b.schedule, 100 * USEC_PER_MSEC);
        schedule_run_all(b.schedule);
        ASSERT_EQ(b.quick, 2);
        (void) usleep(95 * 1000);
        schedule_go_along(b.schedule);
        ASSERT_EQ(b.quick, 3);
        down(&b);
}

TEST_MAIN(goes_along, answers, hangs, cannot_be_killed, bad_answers, no_program)
