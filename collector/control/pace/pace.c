/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include <math.h>

#include "grow.h"
#include "pace_inside.h"

/* --- Runs ------------------------------------------------------------------------------------------ */

/* Steps of one run are alike: their times within this of the median (windows of hosts do not end at once,
 * and while a run slows down some have more of it than others), their numbers within what a window brings.
 */
#define ALIKE 0.4
#define STEPS_APART 3

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

/* --- Who there is ---------------------------------------------------------------------------------- */

static void forget_silent(struct pace *p, usec_t now) {
        for (size_t i = p->n; i > 0; i--)
                if (p->runs[i - 1]->heard + PACE_FORGOTTEN < now) {
                        (void) pace_run_free(p->runs[i - 1]);
                        p->runs[i - 1] = p->runs[--p->n];
                }
}

static size_t runs_begun_by(const struct pace *p, int64_t host, usec_t now) {
        size_t n = 0;

        for (size_t i = 0; i < p->n; i++)
                n += p->runs[i]->first == host && p->runs[i]->heard + PACE_FORGOTTEN >= now;
        return n;
}

/* 0 and *ret NULL: as many runs as are kept, of all or of this host. at: what the host says that it is. */
static int find_run(struct pace *p, const struct pace_source *who, const char *name, usec_t at, usec_t now,
                    struct pace_run **ret) {
        struct pace_run *run;

        *ret = NULL;
        for (size_t i = 0; i < p->n; i++)
                if (streq(p->runs[i]->name, name)) {
                        *ret = p->runs[i];
                        return 0;
                }
        if (p->n == PACE_RUNS_MAX)
                forget_silent(p, now);
        if (p->n == PACE_RUNS_MAX || strlen(name) >= PACE_NAME_MAX ||
            runs_begun_by(p, who->host, now) >= PACE_RUNS_OF_HOST)
                return 0;
        run = calloc(1, sizeof(*run));
        if (!run)
                return -ENOMEM;
        (void) snprintf(run->name, sizeof(run->name), "%s", name);
        run->first = who->host;
        run->named = run->last = -1;
        run->judged = at;
        *ret = p->runs[p->n++] = run;
        return 0;
}

static struct runner *find_runner(struct pace_run *run, const struct pace_source *who) {
        size_t at = SORTED_PLACE(run->n, i, run->runners[i]->host < who->host);
        _cleanup_free_ struct runner *r = NULL;

        if (at < run->n && run->runners[at]->host == who->host)
                return run->runners[at];
        if (run->n == STRAGGLER_HOSTS_MAX)
                return NULL;
        r = calloc(1, sizeof(*r));
        if (!r || grow_at(&run->runners, &run->size, &run->n, at, sizeof(struct runner *)) < 0)
                return NULL;
        r->host = who->host;
        return run->runners[at] = TAKE_PTR(r);
}

/* 0 and *ret NULL: not one that is watched. */
static int find_runner_of(struct pace *p, const struct pace_source *who, const struct pace_figures *f,
                          usec_t now, struct pace_run **ret_run, struct runner **ret) {
        int e = find_run(p, who, f->run, f->at, now, ret_run);

        *ret = *ret_run ? find_runner(*ret_run, who) : NULL;
        if (!*ret)
                return e < 0 || !*ret_run || (*ret_run)->n == STRAGGLER_HOSTS_MAX ? e : -ENOMEM;
        (*ret_run)->heard = MAX((*ret_run)->heard, now);
        (void) snprintf((*ret)->name, sizeof((*ret)->name), "%s", who->name);
        (void) snprintf((*ret)->slice, sizeof((*ret)->slice), "%s", who->slice ? who->slice : "");
        (*ret)->worker = who->worker;
        return 0;
}

/* --- Judging --------------------------------------------------------------------------------------- */

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
        *ret_seconds = seconds = median_of(scratch, n);
        for (size_t i = 0; i < n; i++)
                scratch[i] = (double) members[i]->step;
        step = median_of(scratch, n);
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

static double cpu_of_step(const struct runner *r) {
        const struct mark *first = &r->marks[0], *last = &r->marks[MARKS - 1];

        return (last->cpu - first->cpu) / (double) (last->step - first->step);
}

/* By how much its CPU time of a step has grown; 0: not known. */
static double growth_of(const struct runner *r) {
        return r->best > 0 ? cpu_of_step(r) / r->best : 0;
}

static bool has_grown(const struct pace_run *run, double seconds, struct runner *const *members, size_t n,
                      double *scratch, const struct straggler_verdict *v) {
        double own = growth_of(members[v->host]);

        for (size_t i = 0; i < n; i++)
                scratch[i] = growth_of(members[i]);
        if (run->best > 0 && own > 0)
                return seconds >= run->best * PACE_SLOWER &&
                       own >= PACE_SLOWER * MAX(1.0, median_of(scratch, n));
        return false;
}

static void keep_best(struct pace_run *run, double seconds, struct runner *const *members, size_t n) {
        if (run->best > 0 && seconds >= run->best)
                return;
        run->best = seconds;
        for (size_t i = 0; i < n; i++)
                members[i]->best = cpu_of_step(members[i]);
}

static int judge_run(struct pace_run *run, usec_t now, struct pace_verdict *ret) {
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
        if (s.found && has_grown(run, seconds, members, n, times, &s)) {
                if (!pace_is_news(run, members[s.host], false, now))
                        return 0;
                *ret = pace_verdict_of(run, members[s.host], n);
                ret->busy = s.busy;
                ret->others = s.others;
                ret->windows = s.windows;
                ret->step_seconds = last_seconds(members[s.host], seconds);
                pace_say_cpu(ret);
                return 1;
        }
        keep_best(run, seconds, members, n);
        return run->named < 0 || run->by_looks ? 0 : pace_end(run, now, seconds, ret);
}

/* --- Readings -------------------------------------------------------------------------------------- */

/* True: a window has ended. */
static bool add_mark(struct runner *r, usec_t at) {
        const struct mark now = { at, r->cpu, r->step }, *last = r->n > 0 ? &r->marks[r->n - 1] : NULL;

        if (last && (now.cpu < last->cpu || at < last->at || now.step < last->step))
                r->n = 0; /* another start of the run */
        else if (last && (at - last->at < PACE_WINDOW || now.step - last->step < PACE_STEPS))
                return false;
        if (r->n == MARKS) {
                memmove(r->marks, r->marks + 1, sizeof(r->marks) - sizeof(r->marks[0]));
                r->n--;
        }
        assert(r->n < MARKS);
        r->marks[r->n++] = now;
        return r->n == MARKS;
}

static bool is_known(double seconds) {
        return isfinite(seconds) && seconds >= 0;
}

int pace_take(struct pace *p, const struct pace_source *who, const struct pace_figures *f, usec_t now,
              struct pace_verdict *ret) {
        struct runner *r;
        struct pace_run *run;
        int e = find_runner_of(p, who, f, now, &run, &r);

        if (e < 0 || !r || f->at < r->at)
                return e; /* figures that come late say nothing of now */
        r->at = f->at;
        if (f->step >= 0) {
                if (r->stepped && (uint64_t) f->step < r->step)
                        r->n = 0; /* the run restarted from a checkpoint */
                r->step = (uint64_t) f->step;
                r->stepped = true;
        }
        if (pace_take_looks(run, r, f)) {
                e = pace_judge_looks(run, f->at, ret);
                if (e != 0)
                        return e;
        }
        if (!is_known(f->user) || !is_known(f->system))
                return 0;
        if (is_known(f->waited)) {
                if (!r->knows_waited)
                        r->n = 0; /* earlier marks lack it */
                r->knows_waited = true;
                r->waited = f->waited;
        }
        r->cpu = f->user + f->system + r->waited;
        if (!r->stepped || !add_mark(r, f->at) || f->at < run->judged + PACE_WINDOW)
                return 0;
        run->judged = f->at;
        return judge_run(run, f->at, ret);
}
