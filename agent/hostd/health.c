/* SPDX-License-Identifier: Apache-2.0 */
#include "health.h"

const char *host_state_name(enum host_state s) {
        switch (s) {
        case HOST_READY:
                return "ready";
        case HOST_DEGRADED:
                return "degraded";
        case HOST_UNFIT:
                return "unfit";
        case HOST_UNKNOWN:
        case _HOST_STATE_MAX:
                break;
        }
        return "unknown";
}

static bool graver(enum verdict a, enum verdict b) {
        return a != b && verdict_worse(a, b) == a;
}

static enum verdict milder_of(enum verdict a, enum verdict b) {
        return verdict_worse(a, b) == a ? b : a;
}

/* Whether the last flap_after changes for the worse lie within flap_window. */
static bool flaps(const struct health_policy *p, const struct check_health *c, usec_t now) {
        unsigned n = MIN(p->flap_after, (unsigned) HEALTH_FLAPS_MAX);
        usec_t first;

        if (n == 0 || c->worsened < n)
                return false;
        first = c->worse_at[(c->worsened - n) % HEALTH_FLAPS_MAX];
        return now >= first && now - first <= p->flap_window;
}

static bool settle(const struct health_policy *p, struct check_health *c, enum verdict v, bool worse,
                   usec_t now) {
        c->settled = v;
        c->since = now;
        c->streak = 0;
        if (worse) {
                c->worse_at[c->worsened++ % HEALTH_FLAPS_MAX] = now;
                c->flapping = c->flapping || flaps(p, c, now);
        } else
                c->flapping = false;
        return true;
}

/* Adds v to the row on the side that worse names; a row on the other side ends. */
static void extend_row(struct check_health *c, enum verdict v, bool worse, usec_t now) {
        if (c->streak > 0 && graver(c->pending, c->settled) == worse) {
                c->pending = worse ? milder_of(c->pending, v) : verdict_worse(c->pending, v);
                c->streak += c->streak < UINT32_MAX;
        } else {
                c->pending = v;
                c->streak = 1;
                c->row_since = now;
        }
}

static bool lasted(usec_t from, usec_t now, usec_t span) {
        return now >= from && now - from >= span;
}

bool check_health_step(const struct health_policy *p, struct check_health *c, enum verdict v, usec_t now) {
        bool worse, proves_nothing;

        c->seen = v;
        if (v == VERDICT_OK)
                c->last_good = now;
        if (!c->started) {
                c->started = true;
                return settle(p, c, v, v != VERDICT_OK, now);
        }
        worse = graver(v, c->settled);
        proves_nothing = v == VERDICT_UNKNOWN && !worse;
        if (v == c->settled || proves_nothing) {
                c->streak = 0;
                return false;
        }
        extend_row(c, v, worse, now);
        if (c->streak < MAX(worse ? p->fail_after : p->heal_after, 1U))
                return false;
        if (!worse && !lasted(c->since, now, p->hold))
                return false;
        if (!worse && c->flapping && !lasted(c->row_since, now, p->flap_quiet))
                return false;
        return settle(p, c, c->pending, worse, now);
}

bool check_health_worsens(const struct check_health *c) {
        return c->streak > 0 && graver(c->pending, c->settled);
}

bool check_health_counts(const struct check_health *c) {
        return !c->silenced && !(c->extra && c->started && c->settled == VERDICT_UNKNOWN);
}

enum host_state host_state_of(const struct check_health *checks, size_t n) {
        enum verdict worst = n == 0 ? VERDICT_UNKNOWN : VERDICT_OK;

        for (size_t i = 0; i < n; i++)
                if (check_health_counts(&checks[i]))
                        worst = verdict_worse(worst,
                                              checks[i].started ? checks[i].settled : VERDICT_UNKNOWN);
        switch (worst) {
        case VERDICT_OK:
                return HOST_READY;
        case VERDICT_WARN:
                return HOST_DEGRADED;
        case VERDICT_FAIL:
                return HOST_UNFIT;
        case VERDICT_UNKNOWN:
        case _VERDICT_MAX:
                break;
        }
        return HOST_UNKNOWN;
}
