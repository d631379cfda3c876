/* SPDX-License-Identifier: Apache-2.0 */
#include "route.h"

void route_worked(struct route *r) {
        *r = (struct route) { 0 };
}

static void set_why(struct route *r, const char *why) {
        (void) snprintf(r->why, sizeof(r->why), "%s", why);
}

static usec_t avoid_span(unsigned failures) {
        usec_t span = ROUTE_AVOID;

        for (; failures > ROUTE_FAILURES && span < ROUTE_AVOID_MAX; failures--)
                span *= 2;
        return MIN(span, ROUTE_AVOID_MAX);
}

void route_failed(struct route *r, usec_t now, usec_t wait, const char *why) {
        if (r->failures < UINT16_MAX)
                r->failures++;
        r->parked = false;
        r->retry_at = now + wait;
        if (r->failures >= ROUTE_FAILURES || wait > ROUTE_PATIENCE)
                r->avoid_until = MAX(now + avoid_span(r->failures), r->retry_at);
        set_why(r, why);
}

void route_park(struct route *r, usec_t now, usec_t wait, const char *why) {
        r->failures = 0;
        r->parked = true;
        r->retry_at = r->avoid_until = now + wait;
        set_why(r, why);
}

int route_pick(const struct route *routes, size_t n, usec_t now, usec_t *ret_at) {
        size_t best = n;

        for (size_t i = 0; i < n; i++) {
                if (routes[i].avoid_until <= now) {
                        best = i;
                        break;
                }
                if (best == n || routes[i].retry_at < routes[best].retry_at)
                        best = i;
        }
        if (routes[best].retry_at <= now)
                return (int) best;
        *ret_at = routes[best].retry_at;
        return -1;
}
