/* SPDX-License-Identifier: Apache-2.0 */
#include "pace_inside.h"

#define WHO_MAX (2 * PACE_NAME_MAX + 64)

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

void pace_say_own(struct pace_verdict *v, const char *cause) {
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
