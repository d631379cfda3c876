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

static bool settle(struct check_health *c, enum verdict v, usec_t now) {
        c->settled = v;
        c->since = now;
        c->streak = 0;
        return true;
}

/* Adds v to the row on the side that worse names; a row on the other side ends. */
static void extend_row(struct check_health *c, enum verdict v, bool worse) {
        if (c->streak > 0 && graver(c->pending, c->settled) == worse) {
                c->pending = worse ? milder_of(c->pending, v) : verdict_worse(c->pending, v);
                c->streak += c->streak < UINT32_MAX;
        } else {
                c->pending = v;
                c->streak = 1;
        }
}

bool check_health_step(const struct health_policy *p, struct check_health *c, enum verdict v, usec_t now) {
        bool worse, proves_nothing;

        c->seen = v;
        if (!c->started) {
                c->started = true;
                return settle(c, v, now);
        }
        worse = graver(v, c->settled);
        proves_nothing = v == VERDICT_UNKNOWN && !worse;
        if (v == c->settled || proves_nothing) {
                c->streak = 0;
                return false;
        }
        extend_row(c, v, worse);
        if (c->streak < MAX(worse ? p->fail_after : p->heal_after, 1U))
                return false;
        if (!worse && (now < c->since || now - c->since < p->hold))
                return false;
        return settle(c, c->pending, now);
}

enum host_state host_state_of(const struct check_health *checks, size_t n) {
        enum verdict worst = n == 0 ? VERDICT_UNKNOWN : VERDICT_OK;

        for (size_t i = 0; i < n; i++)
                worst = verdict_worse(worst, checks[i].started ? checks[i].settled : VERDICT_UNKNOWN);
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
