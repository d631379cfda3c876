/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes that can hang: the loop goes on while their worker does not answer, it is killed at its timeout,
 * never doubled, and left alone when it cannot be killed. The worker is a script of the test's, the wait a
 * fifo that nobody writes to; kill(2) is wrapped, so that a kill can be made to do nothing, as in
 * uninterruptible sleep. And what is to be looked at again soon: spans of timers can be made shorter.
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

/* How much sooner timers fire that are set again. */
static unsigned hurry = 1;
int __real_sd_event_source_set_time_relative(sd_event_source *s, uint64_t usec);
int __wrap_sd_event_source_set_time_relative(sd_event_source *s, uint64_t usec);
int __real_sd_event_source_set_time_accuracy(sd_event_source *s, uint64_t usec);
int __wrap_sd_event_source_set_time_accuracy(sd_event_source *s, uint64_t usec);

int __wrap_sd_event_source_set_time_relative(sd_event_source *s, uint64_t usec) {
        return __real_sd_event_source_set_time_relative(s, usec / hurry);
}

int __wrap_sd_event_source_set_time_accuracy(sd_event_source *s, uint64_t usec) {
        return __real_sd_event_source_set_time_accuracy(s, MAX(usec / hurry, (uint64_t) 1));
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

static bool on_done(unsigned source, unsigned run, bool whole, void *userdata) {
        struct bench *b = userdata;

        (void) run;
        b->done += source == 0;
        b->whole += source == 0 && whole;
        return false;
}

static const struct schedule_handlers handlers = { on_finding, on_sample, on_done };

static void up(struct bench *b, const char *script) {
        static const struct probe_context context = { 0 };
        char text[2048];

        *b = (struct bench){ .scratch = scratch_new(), .host = HOST_NULL };
        kill_works = true;
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
               "'{\"sample\":{\"name\":\"n\",\"unit\":\"By\",\"description\":\"d\",\"counter\":false,"
               "\"value\":7,"
               "\"attributes\":[[\"k\",\"v\"]]}}'\necho '{\"done\":0}'");
        turn(&b, 5 * USEC_PER_SEC, 1);
        ASSERT_EQ(b.whole, 1);
        ASSERT_STREQ(b.last.check, "slow.x");
        ASSERT_EQ(b.last.verdict, VERDICT_WARN);
        ASSERT_STREQ(b.sample, "n{k=v} 7");
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

/* --- Again --------------------------------------------------------------------------------------------- */

struct looks {
        unsigned n;
        bool unsettled; /* what is said each time that one is over */
};

static void on_any_finding(unsigned source, unsigned run, const struct finding *f, void *userdata) {
        (void) source;
        (void) run;
        (void) f;
        (void) userdata;
}

static bool on_look(unsigned source, unsigned run, bool whole, void *userdata) {
        struct looks *l = userdata;

        (void) source;
        (void) run;
        ASSERT_TRUE(whole);
        l->n++;
        return l->unsettled;
}

/* So many looks come, and no more. */
static void look_until(struct bench *b, const struct looks *l, unsigned n) {
        usec_t now = host_now(&b->host), end = now + 10 * USEC_PER_SEC;

        for (; l->n < n && now < end; now = host_now(&b->host))
                ASSERT_TRUE(sd_event_run(b->event, 5 * USEC_PER_MSEC) >= 0);
        for (end = now + 200 * USEC_PER_MSEC; now < end; now = host_now(&b->host))
                ASSERT_TRUE(sd_event_run(b->event, 5 * USEC_PER_MSEC) >= 0);
        ASSERT_EQ(l->n, n);
}

/* What does not settle is looked at again soon, but not for ever: three times until its turn comes. */
static void looks_again(void) {
        static const struct schedule_handlers counts = { on_any_finding, NULL, on_look };
        static const struct probe_context context = { 0 };
        struct probe rare = quick;
        const struct probe *const one[] = { &rare, NULL };
        struct looks looks = { 0 };
        struct schedule *s = NULL;
        struct bench b;

        rare.interval = 3600 * USEC_PER_SEC;
        up(&b, "true");
        b.schedule = schedule_free(b.schedule); /* this one is another */
        hurry = 100; /* again after 50 ms, in turn after half a minute */
        ASSERT_OK(schedule_new(b.event, one, &b.program, 0, &b.host, &context, &counts, &looks, &s));
        look_until(&b, &looks, 1); /* it is settled */
        looks.unsettled = true;
        schedule_run_all(s);
        ASSERT_EQ(looks.n, 2);
        schedule_go_along(s);
        ASSERT_EQ(looks.n, 2); /* not at once: what is over in a moment shall be over */
        look_until(&b, &looks, 5);
        schedule_run_all(s); /* in turn: it may go on */
        look_until(&b, &looks, 9);
        looks.unsettled = false;
        schedule_run_all(s);
        look_until(&b, &looks, 10);
        schedule_set_interval(s, 5 * USEC_PER_SEC); /* its turn comes as soon */
        looks.unsettled = true;
        schedule_run_all(s);
        ASSERT_EQ(looks.n, 11);
        (void) schedule_free(s);
        hurry = 1;
        down(&b);
}

TEST_MAIN(goes_along, looks_again, answers, hangs, cannot_be_killed, bad_answers, no_program)
