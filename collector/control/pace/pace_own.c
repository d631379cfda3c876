/* SPDX-License-Identifier: Apache-2.0 */
#include "pace_inside.h"

#include <math.h>

#define RUNNERS_MIN 3u /* one that is slow, and two others */
#define OWN_TOGETHER (60 * USEC_PER_SEC) /* bursts of looks that are of one time */
#define OWN_PATIENCE (25 * USEC_PER_SEC) /* with those who have not looked */
#define WHO_MAX (2 * PACE_NAME_MAX + 64)

/* --- What is said ----------------------------------------------------------------------------------- */

static void put_who(const struct pace_verdict *v, char buf[static WHO_MAX]) {
        if (v->slice[0] && v->worker >= 0)
                (void) snprintf(buf, WHO_MAX, "slice %s, worker %" PRId64 " (%s)", v->slice, v->worker,
                                v->name);
        else
                (void) snprintf(buf, WHO_MAX, "host %s", v->name);
}

static void put_before(const struct pace_verdict *v, char buf[static 64]) {
        buf[0] = '\0';
        if (v->best > 0 && v->step_seconds >= v->best * PACE_NOTICED)
                (void) snprintf(buf, 64, ", and took %.2f s before", v->best);
}

void pace_say_cpu(struct pace_verdict *v) {
        char who[WHO_MAX], before[64];

        put_who(v, who);
        put_before(v, before);
        (void) snprintf(
                v->sentence, sizeof(v->sentence),
                "%s slows run %s down: in %u of %u windows it computed, or wanted a CPU, for %.2f s of "
                "every second, the %zu others for %.2f s, and wait for it; a step takes %.2f s%s",
                who, v->run, v->windows, STRAGGLER_WINDOWS, v->busy, v->hosts - 1, v->others,
                v->step_seconds, before);
}

static void say_own(struct pace_verdict *v, const char *cause) {
        char who[WHO_MAX], before[64];

        put_who(v, who);
        put_before(v, before);
        if (v->step_seconds > 0)
                (void) snprintf(
                        v->sentence, sizeof(v->sentence),
                        "%s slows run %s down: its own part of a step takes %.2f s longer than that of the "
                        "%zu others, who wait for it meanwhile; a step takes %.2f s%s; %s",
                        who, v->run, (v->busy - v->others) * v->step_seconds, v->hosts - 1, v->step_seconds,
                        before, cause);
        else
                (void) snprintf(
                        v->sentence, sizeof(v->sentence),
                        "%s slows run %s down: for %.0f %% of a step the others wait for it (of the %zu "
                        "others %.0f %%); %s",
                        who, v->run, 100 * v->busy, v->hosts - 1, 100 * v->others, cause);
}

struct pace_verdict pace_verdict_of(const struct pace_run *run, const struct runner *r, size_t hosts) {
        struct pace_verdict v = { .host = r->host, .worker = r->worker, .hosts = hosts, .best = run->best };

        (void) snprintf(v.run, sizeof(v.run), "%s", run->name);
        (void) snprintf(v.name, sizeof(v.name), "%s", r->name);
        (void) snprintf(v.slice, sizeof(v.slice), "%s", r->slice);
        return v;
}

bool pace_is_news(struct pace_run *run, const struct runner *r, bool by_looks, usec_t now) {
        if (run->named == r->host ||
            (run->named_at > 0 && run->last == r->host && now < run->named_at + PACE_AGAIN))
                return false;
        run->named = run->last = r->host;
        run->named_at = now;
        run->by_looks = by_looks;
        return true;
}

int pace_end(struct pace_run *run, usec_t now, double seconds, struct pace_verdict *ret) {
        const struct runner *r = NULL;
        char who[WHO_MAX];

        for (size_t i = 0; i < run->n; i++)
                if (run->runners[i]->host == run->named)
                        r = run->runners[i];
        run->named = -1;
        if (!r)
                return 0;
        *ret = pace_verdict_of(run, r, run->n);
        ret->over = true;
        ret->step_seconds = seconds;
        ret->lasted = now - MIN(now, run->named_at);
        put_who(ret, who);
        (void) snprintf(ret->sentence, sizeof(ret->sentence),
                        "%s slows run %s down no more, after %.0f s; a step takes %.2f s", who, run->name,
                        (double) ret->lasted / USEC_PER_SEC, seconds);
        return 1;
}

/* --- Own parts ------------------------------------------------------------------------------------- */

/* Everyone who looks has looked now; or no one else is to be waited for. */
static bool is_complete(const struct pace_run *run, usec_t now) {
        size_t fresh = 0, heard = 0;
        usec_t oldest = now;

        for (size_t i = 0; i < run->n; i++) {
                const struct runner *r = run->runners[i];

                if (!r->looks || r->at + OWN_TOGETHER < now)
                        continue;
                heard++;
                if (r->own.fresh && r->own.at + OWN_TOGETHER >= now) {
                        fresh++;
                        oldest = MIN(oldest, r->own.at);
                }
        }
        return fresh >= RUNNERS_MIN && (fresh >= heard || oldest + OWN_PATIENCE < now);
}

static void median_costs(struct runner *const *members, size_t n, size_t without, double *scratch,
                         struct own_costs *ret) {
        for (enum own_cost c = 0; c <= _OWN_COST_MAX; c++) {
                size_t known = 0;

                for (size_t i = 0; i < n; i++) {
                        const struct own_costs *k = &members[i]->own.costs;
                        double value = c < _OWN_COST_MAX ? k->seconds[c] : k->retransmits;

                        if (i != without && isfinite(value))
                                scratch[known++] = value;
                }
                *(c < _OWN_COST_MAX ? &ret->seconds[c] : &ret->retransmits) =
                        known > 0 ? median_of(scratch, known) : (double) NAN;
        }
}

/* Its own part has grown with the step, since the run's best: by at least half of that. */
static bool has_grown_alone(const struct pace_run *run, const struct runner *r, double share,
                            double seconds) {
        return run->looked_best > 0 && seconds >= PACE_SLOWER * run->looked_best &&
               2 * (share * seconds - r->own_before) >= seconds - run->looked_best;
}

static void keep_looked_best(struct pace_run *run, double seconds, struct runner *const *members,
                             const struct own_part *parts, size_t n) {
        if (seconds <= 0 || (run->looked_best > 0 && seconds >= run->looked_best))
                return;
        run->looked_best = seconds;
        for (size_t i = 0; i < n; i++)
                members[i]->own_before = parts[i].share * seconds;
}

static int judge_own_parts(struct pace_run *run, usec_t now, struct pace_verdict *ret) {
        _cleanup_free_ struct runner **members = calloc(run->n + 1, sizeof(struct runner *));
        _cleanup_free_ struct own_part *parts = calloc(run->n + 1, sizeof(*parts));
        _cleanup_free_ double *scratch = calloc(run->n + 1, sizeof(*scratch));
        struct own_costs others;
        struct own_verdict v;
        double seconds, extra = 0;
        size_t n = 0, known = 0;
        int r;

        if (!members || !parts || !scratch)
                return -ENOMEM;
        for (size_t i = 0; i < run->n; i++) {
                struct runner *m = run->runners[i];

                if (!m->own.fresh || m->own.at + OWN_TOGETHER < now)
                        continue;
                m->own.fresh = false;
                if (m->own.seconds > 0)
                        scratch[known++] = m->own.seconds;
                parts[n] = m->own.part;
                members[n++] = m;
        }
        seconds = median_of(scratch, known);
        r = own_part_judge(parts, n, &v);
        if (r < 0)
                return r;
        if (v.found) {
                median_costs(members, n, v.host, scratch, &others);
                extra = (v.share - v.others) * seconds;
        }
        if (v.found && v.alone)
                v.found = own_cause(&members[v.host]->own.costs, &others, extra) != _OWN_COST_MAX ||
                          has_grown_alone(run, members[v.host], v.share, seconds);
        if (!v.found) {
                keep_looked_best(run, seconds, members, parts, n);
                run->best = seconds > 0 && (run->best <= 0 || seconds < run->best) ? seconds : run->best;
                return run->named < 0 || !run->by_looks ? 0 : pace_end(run, now, seconds, ret);
        }
        if (!pace_is_news(run, members[v.host], true, now))
                return 0;
        *ret = pace_verdict_of(run, members[v.host], n);
        ret->busy = v.share;
        ret->others = v.others;
        ret->step_seconds = seconds;
        say_own(ret, own_cause_text(&members[v.host]->own.costs, &others, extra));
        return 1;
}

/* What was counted between two figures, of a step. */
static double of_a_step(double from, double to, uint64_t steps) {
        return steps > 0 && to >= from ? (to - from) / (double) steps : (double) NAN; /* also of NAN */
}

/* A burst of looks has ended, or enough of it. */
static void take_count(struct pace_run *run, struct runner *r, const struct pace_figures *f) {
        const struct own_count now = {
                .at = f->at, .step = r->step, .looks = f->looks, .owed = f->owed, .costs = f->costs
        };
        const struct own_count *from = &r->from;
        uint64_t looks = now.looks - MIN(now.looks, from->looks),
                 steps = now.step - MIN(now.step, from->step);

        if (!r->looks || looks == 0 || now.owed < from->owed || now.at <= from->at ||
            now.step < from->step) {
                r->looks = true;
                r->from = now; /* nothing is looked at, or its agent restarted */
                return;
        }
        if (looks < OWN_LOOKS)
                return;
        r->own = (struct own_window){
                .at = now.at,
                .fresh = true,
                .seconds = steps > 0 ? (double) (now.at - from->at) / USEC_PER_SEC / (double) steps : 0,
                .part = { (double) (now.owed - from->owed) / (double) looks, looks },
        };
        for (enum own_cost c = 0; c < _OWN_COST_MAX; c++)
                r->own.costs.seconds[c] = of_a_step(from->costs.seconds[c], now.costs.seconds[c], steps);
        r->own.costs.retransmits = of_a_step(from->costs.retransmits, now.costs.retransmits, steps);
        r->from = now;
        run->looks++;
}

bool pace_take_looks(struct pace_run *run, struct runner *r, const struct pace_figures *f) {
        if (f->looks > 0)
                take_count(run, r, f);
        return r->looks;
}

int pace_judge_looks(struct pace_run *run, usec_t now, struct pace_verdict *ret) {
        if (run->looks < RUNNERS_MIN || !is_complete(run, now)) /* figures come far more often than bursts */
                return 0;
        run->looks = 0;
        return judge_own_parts(run, now, ret);
}
