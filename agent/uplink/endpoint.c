/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <curl/curl.h>

#include "endpoint.h"

static inline void url_freep(CURLU **u) {
        curl_url_cleanup(*u);
}
static inline void part_freep(char **p) {
        curl_free(*p);
}

static bool is_address(const char *host) {
        struct in_addr four;

        return host[0] == '[' || inet_pton(AF_INET, host, &four) == 1;
}

/* Makes the look-up of the host that is connected to, if it has a name. */
static int lookup_for(struct endpoint *p, sd_event *e, const char *url,
                        void (*resolved)(const char *error, void *userdata)) {
        _cleanup_(url_freep) CURLU *u = curl_url();
        _cleanup_(part_freep) char *host = NULL;
        _cleanup_(part_freep) char *port = NULL;
        struct lookup_options o = { .done = resolved, .userdata = p };

        if (!u)
                return -ENOMEM;
        if (curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
            curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
            curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK)
                return -EINVAL;
        if (is_address(host))
                return 0;
        o.host = host;
        o.port = (uint16_t) strtoul(port, NULL, 10); /* libcurl has bounded it */
        return lookup_new(e, &o, &p->lookup);
}

/* Credentials do not belong into the URL: it is shown. */
static bool url_ok(const char *s) {
        return (startswith(s, "http://") || startswith(s, "https://")) && !strchr(s, '@') &&
               strlen(s) < 1024;
}

int endpoint_init(struct endpoint *p, sd_event *e, const char *base, const char *proxy,
                  void (*resolved)(const char *error, void *userdata)) {
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
        return lookup_for(p, e, proxy ? proxy : p->base, resolved);
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
