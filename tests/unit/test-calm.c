/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Healthy hours out of a generator: the pauses of real trainings, and nobody is to be alarmed. An alarm is
 * what the collector would confirm (verdict_judge()) of a suspicion that counts, taking of each pause the
 * diagnosis that is worst for us. The lengths of the pauses are those that users report and our lab shows
 * (compiles of 330 s, restores of 24 minutes); hours of real recordings are none of these. HOURS=N makes N
 * host-hours.
 */
#include "episode.h"
#include "suspicion.h"
#include "test.h"

#define S USEC_PER_SEC
#define TICK (10 * S)
#define HOSTS 8u

static uint64_t state;

static double uniform(void) {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return (double) ((state * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

/* What goes on instead of a step. */
enum pause { COMPILING, RESTORING, EVALUATING, SAVING, WARMING, N_PAUSES };
static const struct {
        const char *name, *begins, *goes_on; /* lines of the log; NULL: nothing is said */
        double least, most;                  /* s */
        double cores, written,
                net;       /* of the busy hosts, beside what steps take (1.0); written and net: bytes a s */
        bool one_host;     /* one is busy, the others wait for it */
        bool moves, saves; /* what a capture would show of the one that stands out */
} pauses[N_PAUSES] = {
        [COMPILING] = { "compile", "Compiling jit(train_step) with global shapes and types", NULL, 60, 330,
                        3, 1e4, 0, false, true, false },
        [RESTORING] = { "restore", "restoring checkpoint from /data", "restoring checkpoint: 40 % done", 300,
                        1440, 0.4, 1e4, 80e6, false, true, false },
        [EVALUATING] = { "evaluation", "***** Running Evaluation *****", NULL, 20, 240, 0.9, 1e3, 1e6, false,
                         true, false },
        [SAVING] = { "checkpoint of one rank", "saving checkpoint at iteration 7 to /data", NULL, 20, 180,
                     0.5, 60e6, 0, true, true, true },
        [WARMING] = { "a loader that warms up", NULL, NULL, 10, 40, 1.2, 1e3, 30e6, false, true, false },
};

struct host {
        struct run_watch w;
        struct activity_reading counters;
        double cores, written, net;
        usec_t tick;
        bool counted, announced, works; /* of the suspicion that counts */
};
struct training {
        struct host hosts[HOSTS];
        usec_t now;
        double step, spread, cores, net;
        uint64_t n;
        enum pause paused; /* N_PAUSES: steps go on */
        size_t busy;
        unsigned suspicions, looks, alarms;
};

static void count_host(struct host *h, usec_t now) {
        double span = (double) (now - h->counters.at) / S;

        h->counters.cpu_usec += (int64_t) (h->cores * span * S);
        h->counters.written_bytes += (int64_t) (h->written * span);
        h->counters.net_bytes += (int64_t) (h->net * span);
        h->counters.at = now;
}

/* The collector's look: two captures show that the run makes no step, and whom they would name. */
static void look(struct training *t, const struct host *h) {
        bool named = t->paused < N_PAUSES && pauses[t->paused].one_host;
        const struct host *busy = &t->hosts[t->busy];
        const struct suspicion *s = &h->w.suspicion;
        const struct verdict_text v = { .outcome = named ? "named" : "works",
                                        .moved = named && pauses[t->paused].moves,
                                        .saves = named && pauses[t->paused].saves };
        const struct verdict_case c = { .suspected = true,
                                        .stalls = s->kind == SUSPICION_STALL,
                                        .pauses = busy->w.announced != PAUSE_NONE,
                                        .works = pauses[MIN(t->paused, N_PAUSES - 1)].written > 1e6 };

        t->looks++;
        if (verdict_judge(&v, &c) == VERDICT_CONFIRMS) {
                t->alarms++;
                printf("alarm in %s: %s\n", t->paused < N_PAUSES ? pauses[t->paused].name : "steps", s->why);
        }
}

static void pass(struct training *t, double seconds) {
        usec_t end = t->now + (usec_t) (seconds * S);

        for (;;) {
                usec_t next = USEC_INFINITY;

                for (size_t i = 0; i < HOSTS; i++)
                        next = MIN(next, MIN(run_watch_due(&t->hosts[i].w), t->hosts[i].tick));
                if (next > end)
                        break;
                t->now = MAX(t->now, next);
                for (size_t i = 0; i < HOSTS; i++) {
                        struct host *h = &t->hosts[i];
                        struct suspicion ended;
                        enum run_judged judged;

                        if (MIN(run_watch_due(&h->w), h->tick) > t->now)
                                continue;
                        count_host(h, t->now);
                        h->tick = t->now >= h->tick ? t->now + TICK : h->tick;
                        (void) run_watch_reading(&h->w, &h->counters, &ended);
                        judged = run_watch_judge(&h->w, t->now);
                        t->suspicions += judged == RUN_JUDGED_SUSPECTED;
                        if (judged == RUN_JUDGED_COUNTS ||
                            (judged == RUN_JUDGED_SUSPECTED && h->w.suspicion.counts))
                                look(t, h);
                }
        }
        t->now = end;
        for (size_t i = 0; i < HOSTS; i++)
                count_host(&t->hosts[i], t->now);
}

static void take(struct training *t, double cores, double written, double net, size_t only) {
        for (size_t i = 0; i < HOSTS; i++) {
                bool busy = only == HOSTS || i == only;

                count_host(&t->hosts[i], t->now);
                t->hosts[i].cores = busy ? cores : 0.05;
                t->hosts[i].written = busy ? written : 1000;
                t->hosts[i].net = busy ? net : 0;
        }
}

static void say(struct training *t, const char *text, size_t only) {
        for (size_t i = 0; text && i < HOSTS; i++)
                if (only == HOSTS || i == only)
                        run_watch_line(&t->hosts[i].w, text, strlen(text), t->now);
}

static void pause_now(struct training *t, enum pause p) {
        double left = pauses[p].least + uniform() * (pauses[p].most - pauses[p].least);

        bool said = p == COMPILING || p == RESTORING || uniform() < 0.6; /* many programs say nothing */

        t->paused = p;
        t->busy = (size_t) (uniform() * HOSTS);
        take(t, pauses[p].cores * t->cores + (p == COMPILING ? 2 : 0), pauses[p].written, pauses[p].net,
             pauses[p].one_host ? t->busy : HOSTS);
        if (said)
                say(t, pauses[p].begins, HOSTS);
        for (; left > 0; left -= 30) {
                pass(t, MIN(left, 30));
                if (left > 30 && said)
                        say(t, pauses[p].goes_on, HOSTS);
        }
        take(t, t->cores, 1000, t->net, HOSTS);
        t->paused = N_PAUSES;
}

/* Sequences of many lengths: most steps are alike, some take several times as long. */
static double length_of_step(struct training *t) {
        return t->step * (1 + t->spread * (uniform() - 0.5)) * (t->spread > 0.5 && uniform() < 0.02 ? 2 : 1);
}

static void step(struct training *t) {
        struct run_stepped stepped;

        pass(t, length_of_step(t));
        t->n++;
        for (size_t i = 0; i < HOSTS; i++)
                (void) run_watch_step(&t->hosts[i].w, t->n, t->now, &stepped);
}

/* An hour of one run, from its start on. */
static void hour(struct training *t) {
        static const double lengths[] = { 0.3, 0.6, 1.5, 4, 10, 25 };
        unsigned every[N_PAUSES];

        *t = (struct training){ .now = 1000 * S,
                                .step = lengths[(size_t) (uniform() * ELEMENTSOF(lengths))] *
                                        (0.8 + 0.4 * uniform()),
                                .spread = uniform() < 0.3 ? 1.0 : 0.2 * uniform(),
                                .cores = 0.5 + 4 * uniform(),
                                .net = 1e6 + 5e7 * uniform(),
                                .paused = N_PAUSES };
        for (size_t i = 0; i < HOSTS; i++) {
                run_watch_init(&t->hosts[i].w);
                t->hosts[i].counters.at = t->now;
                t->hosts[i].counters.device_idle = -1;
                t->hosts[i].tick = t->now + (usec_t) (uniform() * TICK);
        }
        for (size_t p = 0; p < N_PAUSES; p++)
                every[p] = 30 + (unsigned) (uniform() * 1500 / MAX(t->step, 1.0));
        take(t, t->cores, 1000, t->net, HOSTS);
        if (uniform() < 0.5)
                pause_now(t, RESTORING);
        pause_now(t, COMPILING);
        while (t->now < 4600 * S) {
                for (size_t p = EVALUATING; p < N_PAUSES; p++)
                        if (t->n > 0 && t->n % every[p] == 0)
                                pause_now(t, (enum pause) p);
                if (uniform() < 0.0002)
                        pause_now(t, COMPILING);
                step(t);
        }
}

static void test_hours(void) {
        unsigned seed = test_seed(), wanted = getenv("HOURS") ? (unsigned) atoi(getenv("HOURS")) : 1000,
                 hours = 0, seeds = 0, suspicions = 0, looks = 0, alarms = 0;

        for (; hours < wanted; hours += HOSTS, seeds++) {
                static struct training t;

                state = (seed + seeds) * UINT64_C(0x9e3779b97f4a7c15) + 1; /* a seed an hour */
                hour(&t);
                suspicions += t.suspicions;
                looks += t.looks;
                alarms += t.alarms;
        }
        printf("%u host-hours of %u seeds, none recorded: %u suspicions, %u looks at all hosts, %u alarms\n",
               hours, seeds, suspicions, looks, alarms);
        ASSERT_EQ(alarms, 0);
}

TEST_MAIN(test_hours)
