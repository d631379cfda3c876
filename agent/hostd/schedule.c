/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>
#include <time.h>

#include "log.h"
#include "schedule.h"

/* How late a timer may be, so that the kernel wakes us once for several. */
#define ACCURACY (1 * USEC_PER_SEC)

struct slot {
        struct schedule *schedule;
        const struct probe *probe;
        unsigned source, run;
        sd_event_source *timer;
};

struct schedule {
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

static void run_probe(struct slot *slot) {
        struct schedule *s = slot->schedule;
        struct run_sink sink = { .sink = { .finding = on_finding, .sample = on_sample }, .slot = slot };
        int r;

        slot->run++;
        r = slot->probe->run(s->host, s->context, &sink.sink);
        if (r < 0) {
                struct finding f;

                finding_init(&f, slot->probe->name, "");
                finding_set(f.reason, "the probe could not look: %s", strerror(-r));
                s->handlers->finding(slot->source, slot->run, &f, s->userdata);
        }
        s->handlers->done(slot->source, slot->run, r >= 0, s->userdata);
}

usec_t schedule_jitter(usec_t interval, uint32_t random) {
        usec_t spread = interval / 5;

        return interval - spread / 2 + (spread > 0 ? random % spread : 0);
}

static void arm(struct slot *slot) {
        usec_t interval = slot->schedule->interval > 0 ? slot->schedule->interval : slot->probe->interval;
        uint32_t random = 0;
        int r;

        (void) getrandom(&random, sizeof(random),
                         GRND_NONBLOCK); /* without randomness there is no jitter, and that is all */
        r = sd_event_source_set_time_relative(slot->timer, schedule_jitter(interval, random));
        if (r >= 0)
                r = sd_event_source_set_enabled(slot->timer, SD_EVENT_ONESHOT);
        if (r < 0)
                (void) log_error_errno(r, "probe %s will not run again: its timer cannot be set: %m",
                                       slot->probe->name);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct slot *slot = userdata;

        (void) source;
        (void) usec;
        run_probe(slot);
        arm(slot);
        return 0;
}

static int add(struct schedule *s, sd_event *e, const struct probe *p) {
        struct slot *slot = &s->slots[s->n];
        usec_t interval = s->interval > 0 ? s->interval : p->interval;
        int r;

        *slot = (struct slot) { .schedule = s, .probe = p, .source = (unsigned) s->n };
        r = sd_event_add_time_relative(e, &slot->timer, CLOCK_BOOTTIME, interval,
                                       MIN(ACCURACY, interval / 10), on_timer, slot);
        if (r < 0)
                return r;
        s->n++;
        (void) sd_event_source_set_description(slot->timer, p->name);
        return 0;
}

int schedule_new(sd_event *e, const struct probe *const *probes, usec_t interval, const struct host *h,
                 const struct probe_context *c, const struct schedule_handlers *handlers, void *userdata,
                 struct schedule **ret) {
        _cleanup_(schedule_freep) struct schedule *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
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
        for (size_t i = 0; i < s->n; i++)
                s->slots[i].timer = sd_event_source_disable_unref(s->slots[i].timer);
        free(s);
        return NULL;
}

void schedule_run_all(struct schedule *s) {
        for (size_t i = 0; i < s->n; i++) {
                run_probe(&s->slots[i]);
                arm(&s->slots[i]);
        }
}

void schedule_set_interval(struct schedule *s, usec_t interval) {
        s->interval = interval;
}
