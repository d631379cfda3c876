/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoint.h"

/* Credentials do not belong into the URL: it is shown. */
static bool url_ok(const char *s) {
        return (startswith(s, "http://") || startswith(s, "https://")) && !strchr(s, '@') &&
               strlen(s) < 1024;
}

int endpoint_init(struct endpoint *p, sd_event *e, const char *base, const char *proxy,
                  void (*resolved)(const char *error, void *userdata)) {
        const struct lookup_options lookup = { .done = resolved, .userdata = p };
        size_t len = strlen(base);

        if (!url_ok(base))
                return -EINVAL;
        while (len > 0 && base[len - 1] == '/')
                len--;
        p->https = startswith(base, "https://");
        p->base = strndup(base, len);
        if (!p->base)
                return -ENOMEM;
        for (enum uplink_class c = 0; c < _UPLINK_CLASS_MAX; c++) {
                const char *path = c == UPLINK_METRICS ? "/v1/metrics" : "/v1/logs";

                if (asprintf(&p->urls[c], "%s%s", p->base, path) < 0) {
                        p->urls[c] = NULL;
                        return -ENOMEM;
                }
        }
        return lookup_new_for_url(e, proxy ? proxy : p->base, &lookup, &p->lookup);
}

void endpoint_clear(struct endpoint *p) {
        p->lookup = lookup_free(p->lookup);
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                free(TAKE_PTR(p->urls[c]));
        free(TAKE_PTR(p->base));
}

int endpoint_addresses(struct endpoint *p, const char **ret) {
        const char *known;
        usec_t taken;
        int r;

        known = p->lookup ? lookup_answer(p->lookup, &taken) : NULL;
        if (p->lookup && !known) {
                r = lookup_ask(p->lookup);
                return r < 0 ? r : 0;
        }
        *ret = known;
        return 1;
}

void endpoint_refresh(struct endpoint *p, usec_t now, usec_t least) {
        usec_t taken;

        if (p->lookup && lookup_answer(p->lookup, &taken) && now > taken && now - taken >= least)
                (void) lookup_ask(p->lookup); /* what is known stays good */
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
