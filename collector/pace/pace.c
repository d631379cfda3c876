/* SPDX-License-Identifier: Apache-2.0 */
#include "pace.h"

#include <math.h>

#define MARKS (STRAGGLER_WINDOWS + 1)
/* Steps of one run are alike: their times within this of the median (windows of hosts do not end at once,
 * and while a run slows down some have more of it than others), their numbers within what a window brings.
 */
#define ALIKE 0.4
#define STEPS_APART 3

/* A host's counters at the end of a window. */
struct mark {
        usec_t at;
        double cpu;
        uint64_t step;
};

struct runner {
        int64_t host, worker;
        char name[PACE_NAME_MAX], slice[PACE_NAME_MAX];
        double cpu[_PACE_PART_MAX];
        usec_t cpu_at[_PACE_PART_MAX];
        uint64_t step;
        bool stepped;
        double best;              /* CPU seconds of a step, when the run was at its best; 0: not known */
        struct mark marks[MARKS]; /* oldest first */
        unsigned n;
        usec_t step_at;
};

struct pace_run {
        char name[PACE_NAME_MAX];
        struct runner **runners; /* by host */
        size_t n, size;
        usec_t heard, judged, told_at;
        int64_t told; /* -1: nobody */
        double best;  /* seconds a step; 0: not known yet */
};

struct pace {
        struct pace_run *runs[PACE_RUNS_MAX];
        size_t n;
};

int pace_new(struct pace **ret) {
        *ret = calloc(1, sizeof(**ret));
        return *ret ? 0 : -ENOMEM;
}

static struct pace_run *pace_run_free(struct pace_run *run) {
        for (size_t i = 0; run && i < run->n; i++)
                free(run->runners[i]);
        if (run)
                free(run->runners);
        free(run);
        return NULL;
}

void pace_forget(struct pace *p) {
        while (p->n > 0)
                (void) pace_run_free(p->runs[--p->n]);
}

struct pace *pace_free(struct pace *p) {
        if (p)
                pace_forget(p);
        free(p);
        return NULL;
}

/* --- Who there is -------------------------------------------------------------------------------------- */

static void forget(struct pace *p, usec_t now) {
        for (size_t i = p->n; i > 0; i--)
                if (p->runs[i - 1]->heard + PACE_FORGOTTEN < now) {
                        (void) pace_run_free(p->runs[i - 1]);
                        p->runs[i - 1] = p->runs[--p->n];
                }
}

/* NULL: as many runs as are kept, or no memory. */
static struct pace_run *find_run(struct pace *p, const char *name, usec_t now) {
        struct pace_run *run;

        for (size_t i = 0; i < p->n; i++)
                if (streq(p->runs[i]->name, name))
                        return p->runs[i];
        if (p->n == PACE_RUNS_MAX)
                forget(p, now);
        run = p->n < PACE_RUNS_MAX && strlen(name) < PACE_NAME_MAX ? calloc(1, sizeof(*run)) : NULL;
        if (!run)
                return NULL;
        (void) snprintf(run->name, sizeof(run->name), "%s", name);
        run->told = -1;
        run->judged = now;
        p->runs[p->n++] = run;
        return run;
}

static size_t place_of_host(const struct pace_run *run, int64_t host) {
        size_t lo = 0, hi = run->n;

        while (lo < hi) {
                size_t mid = (lo + hi) / 2;

                if (run->runners[mid]->host < host)
                        lo = mid + 1;
                else
                        hi = mid;
        }
        return lo;
}

static struct runner *find_runner(struct pace_run *run, const struct pace_source *who) {
        size_t at = place_of_host(run, who->host);
        struct runner *r;

        if (at < run->n && run->runners[at]->host == who->host)
                return run->runners[at];
        if (run->n == STRAGGLER_HOSTS_MAX)
                return NULL;
        if (run->n == run->size) {
                size_t size = MAX(run->size * 2, (size_t) 8);
                struct runner **grown = reallocarray(run->runners, size, sizeof(struct runner *));

                if (!grown)
                        return NULL;
                run->runners = grown;
                run->size = size;
        }
        r = calloc(1, sizeof(*r));
        if (!r)
                return NULL;
        r->host = who->host;
        memmove(run->runners + at + 1, run->runners + at, (run->n - at) * sizeof(struct runner *));
        run->runners[at] = r;
        run->n++;
        return r;
}

/* 0 and *ret NULL: not one that is watched. */
static int find(struct pace *p, const struct pace_source *who, const char *name, usec_t now,
                struct pace_run **ret_run, struct runner **ret) {
        *ret_run = find_run(p, name, now);
        *ret = *ret_run ? find_runner(*ret_run, who) : NULL;
        if (!*ret)
                return p->n == PACE_RUNS_MAX || strlen(name) >= PACE_NAME_MAX ||
                                       (*ret_run && (*ret_run)->n == STRAGGLER_HOSTS_MAX)
                               ? 0
                               : -ENOMEM;
        (*ret_run)->heard = MAX((*ret_run)->heard, now);
        (void) snprintf((*ret)->name, sizeof((*ret)->name), "%s", who->name);
        (void) snprintf((*ret)->slice, sizeof((*ret)->slice), "%s", who->slice ? who->slice : "");
        (*ret)->worker = who->worker;
        return 0;
}

int pace_step(struct pace *p, const struct pace_source *who, const char *run, uint64_t step, usec_t at) {
        struct runner *r;
        struct pace_run *j;
        int e = find(p, who, run, at, &j, &r);

        if (e < 0 || !r || at < r->step_at) /* of a connection that was given up: it came late */
                return e;
        r->step_at = at;
        if (r->stepped && step < r->step)
                r->n = 0; /* from a checkpoint on: it has begun anew */
        r->step = step;
        r->stepped = true;
        return 0;
}

/* --- Judging ------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
        double x = *(const double *) a, y = *(const double *) b;

        return x < y ? -1 : x > y;
}

static double median(double *values, size_t n) {
        qsort(values, n, sizeof(*values), compare);
        return n > 0 ? values[n / 2] : 0;
}

/* Its windows are whole and end about now. */
static bool is_current(const struct runner *r, usec_t now) {
        const struct mark *first = &r->marks[0], *last = &r->marks[MARKS - 1];

        return r->n == MARKS && last->at + 2 * (last->at - r->marks[MARKS - 2].at) >= now &&
               last->step > first->step;
}

/* In the last window alone, for people. */
static double last_seconds(const struct runner *r, double otherwise) {
        const struct mark *a = &r->marks[MARKS - 2], *b = a + 1;

        return b->step > a->step
                       ? (double) (b->at - a->at) / (double) USEC_PER_SEC / (double) (b->step - a->step)
                       : otherwise;
}

static double seconds_of_step(const struct runner *r) {
        const struct mark *first = &r->marks[0], *last = &r->marks[MARKS - 1];

        return (double) (last->at - first->at) / (double) USEC_PER_SEC / (double) (last->step - first->step);
}

/* The runners whose steps rise alike, in members[]; *ret_seconds: the median time of a step. */
static size_t members_of(const struct pace_run *run, usec_t now, struct runner **members, double *scratch,
                         double *ret_seconds) {
        double seconds, step, apart;
        size_t n = 0, kept = 0;

        for (size_t i = 0; i < run->n; i++)
                if (is_current(run->runners[i], now))
                        members[n++] = run->runners[i];
        for (size_t i = 0; i < n; i++)
                scratch[i] = seconds_of_step(members[i]);
        *ret_seconds = seconds = median(scratch, n);
        for (size_t i = 0; i < n; i++)
                scratch[i] = (double) members[i]->step;
        step = median(scratch, n);
        apart = STEPS_APART + (seconds > 0 ? (double) PACE_WINDOW / (double) USEC_PER_SEC / seconds : 0);
        for (size_t i = 0; i < n; i++)
                if (fabs(seconds_of_step(members[i]) - seconds) <= ALIKE * seconds &&
                    fabs((double) members[i]->step - step) <= apart)
                        members[kept++] = members[i];
        return kept;
}

static void fill_busy(struct runner *const *members, size_t n, double *busy) {
        for (size_t w = 0; w < STRAGGLER_WINDOWS; w++)
                for (size_t i = 0; i < n; i++) {
                        const struct mark *a = &members[i]->marks[w], *b = a + 1;

                        busy[w * n + i] =
                                (b->cpu - a->cpu) * (double) USEC_PER_SEC / (double) (b->at - a->at);
                }
}

static void put_sentence(struct pace_verdict *v) {
        char who[2 * PACE_NAME_MAX + 64], before[64] = "";

        if (v->slice[0] && v->worker >= 0)
                (void) snprintf(who, sizeof(who), "slice %s, worker %" PRId64 " (%s)", v->slice, v->worker,
                                v->name);
        else
                (void) snprintf(who, sizeof(who), "host %s", v->name);
        if (v->best > 0 && v->step_seconds >= v->best * PACE_SLOWER)
                (void) snprintf(before, sizeof(before), ", and took %.2f s before", v->best);
        (void) snprintf(v->sentence, sizeof(v->sentence),
                        "%s slows run %s down: in %u of %u windows it computed, or wanted a CPU, for %.2f s of "
                        "every second, the %zu others for %.2f s, and wait for it; a step takes %.2f s%s",
                        who, v->run, v->windows, STRAGGLER_WINDOWS, v->busy, v->hosts - 1, v->others,
                        v->step_seconds, before);
}

static double cpu_of_step(const struct runner *r) {
        const struct mark *first = &r->marks[0], *last = &r->marks[MARKS - 1];

        return (last->cpu - first->cpu) / (double) (last->step - first->step);
}

/* By how much its CPU time of a step has grown; 0: not known. */
static double growth(const struct runner *r) {
        return r->best > 0 ? cpu_of_step(r) / r->best : 0;
}

static bool is_slow(const struct pace_run *run, double seconds, struct runner *const *members, size_t n,
                    double *scratch, const struct straggler_verdict *v) {
        double own = growth(members[v->host]);

        for (size_t i = 0; i < n; i++)
                scratch[i] = growth(members[i]);
        if (run->best > 0 && own > 0)
                return seconds >= run->best * PACE_SLOWER && own >= PACE_SLOWER * MAX(1.0, median(scratch, n));
        return v->busy >= PACE_BUSY && v->others <= v->busy * PACE_OTHERS;
}

static void keep_best(struct pace_run *run, double seconds, struct runner *const *members, size_t n) {
        if (run->best > 0 && seconds >= run->best)
                return;
        run->best = seconds;
        for (size_t i = 0; i < n; i++)
                members[i]->best = cpu_of_step(members[i]);
}

/* 1: a host has become the straggler. */
static int conclude(struct pace_run *j, usec_t now, struct runner *const *members, size_t n, double seconds,
                    const struct straggler_verdict *s, struct pace_verdict *ret) {
        const struct runner *r = members[s->host];

        if (j->told == r->host || (j->told_at > 0 && now < j->told_at + PACE_AGAIN))
                return 0;
        j->told = r->host;
        j->told_at = now;
        *ret = (struct pace_verdict){ .host = r->host,
                                      .worker = r->worker,
                                      .hosts = n,
                                      .busy = s->busy,
                                      .others = s->others,
                                      .step_seconds = last_seconds(r, seconds),
                                      .best = j->best,
                                      .windows = s->windows };
        (void) snprintf(ret->run, sizeof(ret->run), "%s", j->name);
        (void) snprintf(ret->name, sizeof(ret->name), "%s", r->name);
        (void) snprintf(ret->slice, sizeof(ret->slice), "%s", r->slice);
        put_sentence(ret);
        return 1;
}

static int judge(struct pace_run *run, usec_t now, struct pace_verdict *ret) {
        _cleanup_free_ struct runner **members = calloc(run->n + 1, sizeof(struct runner *));
        _cleanup_free_ double *times = calloc(run->n + 1, sizeof(*times)), *busy = NULL;
        struct straggler_verdict s;
        double seconds = 0;
        size_t n;
        int r;

        if (!members || !times)
                return -ENOMEM;
        n = members_of(run, now, members, times, &seconds);
        if (n < 3)
                return 0;
        busy = calloc(n * STRAGGLER_WINDOWS, sizeof(*busy));
        if (!busy)
                return -ENOMEM;
        fill_busy(members, n, busy);
        r = straggler_judge(busy, STRAGGLER_WINDOWS, n, &s);
        if (r < 0)
                return r;
        if (s.found && is_slow(run, seconds, members, n, times, &s))
                return conclude(run, now, members, n, seconds, &s, ret);
        run->told = -1;
        keep_best(run, seconds, members, n);
        return 0;
}

/* --- Readings ------------------------------------------------------------------------------------------ */

/* True: a window has ended. */
static bool mark(struct runner *r, usec_t at) {
        const struct mark now = { at, r->cpu[PACE_USER] + r->cpu[PACE_SYSTEM] + r->cpu[PACE_WAITED],
                                  r->step },
                          *last = r->n > 0 ? &r->marks[r->n - 1] : NULL;

        if (last && (now.cpu < last->cpu || at < last->at || now.step < last->step))
                r->n = 0; /* another start of the run */
        else if (last && (at - last->at < PACE_WINDOW || now.step - last->step < PACE_STEPS))
                return false;
        if (r->n == MARKS) {
                memmove(r->marks, r->marks + 1, sizeof(r->marks) - sizeof(r->marks[0]));
                r->n--;
        }
        r->marks[r->n++] = now;
        return r->n == MARKS;
}

int pace_cpu(struct pace *p, const struct pace_source *who, const char *run, enum pace_part part,
             double seconds, usec_t at, struct pace_verdict *ret) {
        struct runner *r;
        struct pace_run *j;
        int e = isfinite(seconds) && seconds >= 0 ? find(p, who, run, at, &j, &r) : 0;

        if (e < 0 || !isfinite(seconds) || seconds < 0 || !r || at < r->cpu_at[part])
                return e; /* what was kept back on the way tells nothing of now */
        if (part == PACE_WAITED && r->cpu_at[part] == 0)
                r->n = 0; /* what was marked before lacks it */
        r->cpu[part] = seconds;
        r->cpu_at[part] = at;
        if (part == PACE_WAITED || !r->stepped || r->cpu_at[PACE_USER] != r->cpu_at[PACE_SYSTEM] ||
            !mark(r, at) || at < j->judged + PACE_WINDOW)
                return 0;
        j->judged = at;
        return judge(j, at, ret);
}
