/* SPDX-License-Identifier: Apache-2.0 */
#include "backoff.h"
#include "uplink_state.h"

static void on_resolved(const char *error, void *userdata) {
        struct endpoint *p = userdata;
        struct uplink *u = p->uplink;

        (void) snprintf(p->dns_error, sizeof(p->dns_error), "%s", error ? error : "");
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                channel_resolved(&u->channels[c], (size_t) (p - u->endpoints), error);
}

static int add_endpoints(struct uplink *u, const char *list, const char *proxy) {
        _cleanup_free_ char *text = strdup(list);
        char *word, *rest = text;
        int r;

        if (!text)
                return -ENOMEM;
        while ((word = strsep(&rest, " \t"))) {
                struct endpoint *p = &u->endpoints[u->n_endpoints];

                if (!*word)
                        continue;
                if (u->n_endpoints == UPLINK_ENDPOINTS_MAX)
                        return -EINVAL;
                u->n_endpoints++;
                p->uplink = u;
                r = endpoint_init(p, u->event, word, proxy, on_resolved);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int set_path(struct tls_files *f, enum tls_file which, const char *path) {
        if (path && strlen(path) >= sizeof(f->path[which]))
                return -EINVAL;
        (void) snprintf(f->path[which], sizeof(f->path[which]), "%s", path ? path : "");
        return 0;
}

int uplink_endpoints_init(struct uplink *u, const struct uplink_options *o) {
        if (set_path(&u->tls, TLS_CA, o->ca_file) < 0 || set_path(&u->tls, TLS_CERT, o->cert_file) < 0 ||
            set_path(&u->tls, TLS_KEY, o->key_file) < 0)
                return -EINVAL;
        (void) tls_files_look(&u->tls);
        return o->endpoint ? add_endpoints(u, o->endpoint, o->proxy && *o->proxy ? o->proxy : NULL) : 0;
}

void uplink_endpoints_clear(struct uplink *u) {
        for (size_t i = 0; i < u->n_endpoints; i++)
                endpoint_clear(&u->endpoints[i]);
}

void uplink_endpoints_stats(const struct uplink *u, struct uplink_stats *ret) {
        ret->tls = u->tls;
        ret->n_endpoints = u->n_endpoints;
        for (size_t i = 0; i < u->n_endpoints; i++) {
                struct uplink_endpoint_stats *s = &ret->endpoints[i];

                s->url = u->endpoints[i].base;
                memcpy(s->dns_error, u->endpoints[i].dns_error, sizeof(s->dns_error));
                for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                        const struct route *r = &u->channels[c].routes[i];
                        struct uplink_route_stats *t = &s->routes[c];

                        t->sent = u->channels[c].sent_to[i];
                        t->failures = r->failures;
                        t->parked = r->parked;
                        t->retry_boot = r->retry_at;
                        t->avoid_boot = r->avoid_until;
                        memcpy(t->why, r->why, sizeof(t->why));
                }
        }
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                bool parked = u->n_endpoints > 0;

                for (size_t i = 0; i < u->n_endpoints; i++)
                        parked = parked && u->channels[c].routes[i].parked;
                ret->classes[c].parked = parked;
                ret->parked = ret->parked || parked;
        }
}

void uplink_refresh(struct uplink *u) {
        usec_t now;

        if (sd_event_now(u->event, CLOCK_BOOTTIME, &now) < 0)
                return;
        uplink_gaps_look(u, now);
        for (size_t i = 0; i < u->n_endpoints; i++)
                endpoint_refresh(&u->endpoints[i], now, UPLINK_ADDRESS_AGE);
        if (!tls_files_configured(&u->tls) || !tls_files_look(&u->tls))
                return;
        if (u->sender)
                sender_renew(u->sender);
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                channel_try_now(&u->channels[c]);
}
