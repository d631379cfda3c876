/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoint.h"

#include <assert.h>

const char *uplink_class_name(enum uplink_class c) {
        static const char *const names[_UPLINK_CLASS_MAX] = {
                [UPLINK_EVENTS] = "events", [UPLINK_METRICS] = "metrics", [UPLINK_LOGS] = "logs"
        };

        return c < _UPLINK_CLASS_MAX ? names[c] : "unknown";
}

const char *endpoint_path(enum uplink_class c) {
        return c == UPLINK_METRICS ? "/v1/metrics" : "/v1/logs";
}

int endpoint_init(struct endpoint *p, sd_event *e, const char *base, struct exchange_options o,
                  void *const userdata[static _UPLINK_CLASS_MAX]) {
        size_t len = strlen(base);
        char why[256];
        int r = 0;

        while (len > 0 && base[len - 1] == '/')
                len--;
        p->https = startswith(base, "https://");
        p->base = strndup(base, len);
        if (!p->base)
                return -ENOMEM;
        o.url = p->base;
        for (size_t c = 0; c < _UPLINK_CLASS_MAX && r >= 0; c++) {
                o.userdata = userdata[c];
                o.beside = p->exchanges[0];
                r = exchange_new(e, &o, &p->exchanges[c], why);
        }
        return r;
}

void endpoint_clear(struct endpoint *p) {
        for (size_t c = _UPLINK_CLASS_MAX; c > 0; c--) /* the first is what the others stand beside */
                p->exchanges[c - 1] = exchange_free(p->exchanges[c - 1]);
        free(TAKE_PTR(p->base));
}

/* --- Routes ------------------------------------------------------------------------------------------ */

void route_worked(struct uplink_route *r) {
        *r = (struct uplink_route) { .sent = r->sent };
}

static void set_why(struct uplink_route *r, const char *why) {
        (void) snprintf(r->why, sizeof(r->why), "%s", why);
}

static usec_t avoid_span(unsigned failures) {
        usec_t span = ROUTE_AVOID;

        for (; failures > ROUTE_FAILURES && span < ROUTE_AVOID_MAX; failures--)
                span *= 2;
        return MIN(span, ROUTE_AVOID_MAX);
}

void route_failed(struct uplink_route *r, usec_t now, usec_t wait, const char *why) {
        if (r->failures < UINT16_MAX)
                r->failures++;
        r->parked = false;
        r->retry_boot = now + wait;
        if (r->failures >= ROUTE_FAILURES || wait > ROUTE_PATIENCE)
                r->avoid_boot = MAX(now + avoid_span(r->failures), r->retry_boot);
        set_why(r, why);
}

void route_park(struct uplink_route *r, usec_t now, usec_t wait, const char *why) {
        r->failures = 0;
        r->parked = true;
        r->retry_boot = r->avoid_boot = now + wait;
        set_why(r, why);
}

int route_pick(const struct uplink_route *routes, size_t n, usec_t now, usec_t *ret_at) {
        size_t best = n;

        assert(n > 0);
        for (size_t i = 0; i < n; i++) {
                if (routes[i].avoid_boot <= now) {
                        best = i;
                        break;
                }
                if (best == n || routes[i].retry_boot < routes[best].retry_boot)
                        best = i;
        }
        if (routes[best].retry_boot <= now)
                return (int) best;
        *ret_at = routes[best].retry_boot;
        return -1;
}
