/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>

#include "log.h"
#include "loop_timer.h"
#include "schedule.h"

/*
 * A probe may run by a fifth of its interval earlier (but not by more than EARLY_MAX) or later than it is
 * due: room enough to go along with the tick or another probe, instead of waking the processor for each
 * alone.
 */
#define SPREAD 5
#define EARLY_MAX (6 * USEC_PER_SEC)
#define AGAIN_AFTER (5 * USEC_PER_SEC) /* by then, systemd has restarted a daemon that ended */
#define AGAIN_ACCURACY USEC_PER_SEC
#define AGAIN_MAX 3 /* within an interval: more than most findings take to count */

struct slot {
        struct schedule *schedule;
        const struct probe *probe;
        unsigned source, run;
        sd_event_source *timer;
        bool again;      /* the timer stands at a look out of turn */
        unsigned agains; /* such looks since the last one in turn */
        /* Of a probe that blocks: */
        struct child *worker; /* at work, or stuck */
        struct wire_names names;
        bool told; /* this run's end was reported: the worker is stuck, and only its own end is waited for */
};

struct schedule {
        sd_event *event;
        const struct worker_program *program;
        const struct host *host;
        const struct probe_context *context;
        const struct schedule_handlers *handlers;
        void *userdata;
        usec_t interval;
        struct slot slots[SCHEDULE_PROBES_MAX];
        size_t n;
};

/* A sink that knows which run it belongs to. */
struct run_sink {
        struct sink sink;
        struct slot *slot;
};

static void on_finding(struct sink *s, const struct finding *f) {
        struct slot *slot = ((struct run_sink *) s)->slot; /* the sink is the first member */

        slot->schedule->handlers->finding(slot->source, slot->run, f, slot->schedule->userdata);
}

static void on_sample(struct sink *s, const struct sample *m) {
        struct slot *slot = ((struct run_sink *) s)->slot;

        slot->schedule->handlers->sample(slot->source, slot->run, m, slot->schedule->userdata);
}

static struct run_sink sink_of(struct slot *slot) {
        return (struct run_sink){ .sink = { .finding = on_finding, .sample = on_sample }, .slot = slot };
}

static int set_timer(struct slot *slot, usec_t after, usec_t accuracy) {
        int r = sd_event_source_set_time_accuracy(slot->timer, MAX(accuracy, (usec_t) 1));

        if (r >= 0)
                r = loop_timer_in(slot->timer, after);
        if (r < 0)
                (void) log_error_errno(r, "probe %s will not run again: its timer cannot be set: %m",
                                       slot->probe->name);
        return r;
}

static usec_t interval_of(const struct slot *slot) {
        return slot->schedule->interval > 0 ? slot->schedule->interval : slot->probe->interval;
}

static void end_run(struct slot *slot, bool whole) {
        const struct schedule *s = slot->schedule;

        if (!s->handlers->done(slot->source, slot->run, whole, s->userdata) || slot->agains >= AGAIN_MAX ||
            interval_of(slot) <= AGAIN_AFTER)
                return;
        slot->agains++;
        slot->again = set_timer(slot, AGAIN_AFTER, AGAIN_ACCURACY) >= 0;
}

static void run_here(struct slot *slot) {
        struct schedule *s = slot->schedule;
        struct run_sink sink = sink_of(slot);
        int r;

        slot->run++;
        r = slot->probe->run(s->host, s->context, &sink.sink);
        if (r < 0) {
                struct finding f;

                finding_init(&f, slot->probe->name, "");
                finding_set(f.reason, "the probe could not look: %s", strerror(-r));
                s->handlers->finding(slot->source, slot->run, &f, s->userdata);
        }
        end_run(slot, r >= 0);
}

/* --- Workers ------------------------------------------------------------------------------------------- */

static void end_worker_run(struct slot *slot, int result, bool stuck) {
        struct run_sink sink = sink_of(slot);

        slot->told = true;
        if (result == -ETIMEDOUT)
                log_warning("probe %s: no answer in time, its process is %s", slot->probe->name,
                            stuck ? "stuck in the kernel: left alone" : "killed");
        if (result < 0)
                worker_tell_failure(slot->probe, result, stuck, &sink.sink);
        end_run(slot, result == 0);
}

static void on_worker(int result, const char *answer, size_t len, void *userdata) {
        struct slot *slot = userdata;
        struct run_sink sink = sink_of(slot);
        bool stuck = child_is_there(slot->worker);

        if (!stuck)
                slot->worker = child_free(slot->worker);
        if (!slot->told)
                end_worker_run(slot, worker_take(&slot->names, result, answer, len, &sink.sink), stuck);
}

static void run_worker(struct slot *slot) {
        struct schedule *s = slot->schedule;
        int r;

        if (slot->worker)
                return; /* never doubled: the one before still runs, or cannot be killed */
        slot->run++;
        slot->told = false;
        r = worker_start(s->event, s->program, s->host, slot->probe, on_worker, slot, &slot->worker);
        if (r < 0)
                end_worker_run(slot, r, false);
}

static void run_probe(struct slot *slot) {
        if (slot->probe->blocks)
                run_worker(slot);
        else
                run_here(slot);
}

/* --- When ---------------------------------------------------------------------------------------------- */

usec_t schedule_jitter(usec_t interval, uint32_t random) {
        usec_t spread = interval / 5;

        return interval - spread / 2 + (spread > 0 ? random % spread : 0);
}

/* Now, and then in turn; what it finds may set the timer to something earlier. */
static void run_and_arm(struct slot *slot) {
        usec_t interval = interval_of(slot);
        uint32_t random = 0;

        (void) getrandom(&random, sizeof(random),
                         GRND_NONBLOCK); /* without randomness there is no jitter, and that is all */
        (void) set_timer(slot, schedule_jitter(interval, random), interval / SPREAD);
        slot->agains = slot->again ? slot->agains : 0;
        slot->again = false;
        run_probe(slot);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source;
        (void) usec;
        run_and_arm(userdata);
        return 0;
}

static int add(struct schedule *s, sd_event *e, const struct probe *p) {
        struct slot *slot = &s->slots[s->n];
        int r;

        *slot = (struct slot){ .schedule = s, .probe = p, .source = (unsigned) s->n };
        r = loop_timer_new(e, CLOCK_BOOTTIME, 0, p->name, on_timer, slot, &slot->timer);
        if (r == 0)
                s->n++;
        return r;
}

int schedule_new(sd_event *e, const struct probe *const *probes, const struct worker_program *worker,
                 usec_t interval, const struct host *h, const struct probe_context *c,
                 const struct schedule_handlers *handlers, void *userdata, struct schedule **ret) {
        _cleanup_(schedule_freep) struct schedule *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        s->event = e;
        s->program = worker;
        s->host = h;
        s->context = c;
        s->handlers = handlers;
        s->userdata = userdata;
        s->interval = interval;
        for (; *probes; probes++) {
                int r = s->n < SCHEDULE_PROBES_MAX ? add(s, e, *probes) : -E2BIG;

                if (r < 0)
                        return r;
        }
        schedule_run_all(s);
        *ret = TAKE_PTR(s);
        return 0;
}

struct schedule *schedule_free(struct schedule *s) {
        if (!s)
                return NULL;
        for (size_t i = 0; i < s->n; i++) {
                s->slots[i].timer = sd_event_source_disable_unref(s->slots[i].timer);
                s->slots[i].worker = child_free(s->slots[i].worker);
                wire_clear(&s->slots[i].names);
        }
        free(s);
        return NULL;
}

void schedule_run_all(struct schedule *s) {
        for (size_t i = 0; i < s->n; i++)
                run_and_arm(&s->slots[i]);
}

void schedule_go_along(struct schedule *s) {
        uint64_t now, due;

        if (sd_event_now(s->event, CLOCK_BOOTTIME, &now) < 0)
                return;
        for (size_t i = 0; i < s->n; i++) {
                struct slot *slot = &s->slots[i];
                usec_t early = slot->again ? 0 : MIN(interval_of(slot) / SPREAD, EARLY_MAX);

                if (sd_event_source_get_time(slot->timer, &due) >= 0 && due <= now + early)
                        run_and_arm(slot);
        }
}

void schedule_set_interval(struct schedule *s, usec_t interval) {
        s->interval = interval;
}
