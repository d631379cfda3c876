/* SPDX-License-Identifier: Apache-2.0 */
/* The uplink in the JSON of the query API: what waits, what was sent, what was lost and why, and where it
 * goes. */
#include "api_json.h"
#include "uplink_samples.h"

struct now {
        usec_t boot, real;
};

/* When something of the boot clock is or was on the real clock; 0 for never. */
static usec_t to_real(usec_t at, const struct now *now) {
        if (at == 0)
                return 0;
        if (at > now->boot)
                return now->real + (at - now->boot);
        return now->boot - at > now->real ? 0 : now->real - (now->boot - at);
}

static json_t *number(uint64_t n) {
        return json_integer((json_int_t) MIN(n, (uint64_t) INT64_MAX));
}

static json_t *dropped_json(const struct uplink_class_stats *c) {
        json_t *o = json_object();

        for (unsigned l = 0; o && l < UPLINK_DROPS; l++)
                if (json_object_set_new(o, uplink_drop_name(l), number(uplink_drop_count(c, l))) < 0) {
                        json_decref(o);
                        o = NULL;
                }
        return o;
}

static json_t *class_json(const struct uplink_class_stats *c) {
        return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o}",
                         "kept", number(c->spool.records), "bytes", number(c->spool.bytes), "appended",
                         number(c->spool.appended), "sent", number(c->sent), "retried", number(c->retried),
                         "refused", number(c->refused), "dropped", number(c->spool.dropped_bytes_limit),
                         "damaged", number(c->spool.damaged), "oldest", api_json_time(c->oldest_real),
                         "dropped_by", dropped_json(c), "parked", c->parked, "first_seq",
                         number(c->spool.first_seq), "next_seq", number(c->spool.next_seq), "body_bytes",
                         number(c->body_bytes), "wire_bytes", number(c->wire_bytes));
}

static const char *route_state(const struct uplink_route *r, const struct now *now) {
        if (r->parked)
                return "parked";
        if (r->avoid_boot > now->boot)
                return "avoided";
        return r->retry_boot > now->boot ? "waiting" : r->failures > 0 ? "failing" : "good";
}

static json_t *route_json(const struct uplink_route *r, const struct now *now) {
        usec_t until = MAX(r->retry_boot, r->avoid_boot);

        return json_pack("{s:s, s:o, s:i, s:s, s:o}", "state", route_state(r, now), "sent", number(r->sent),
                         "failures", (int) r->failures, "why", r->why, "until",
                         api_json_time(until > now->boot ? to_real(until, now) : 0));
}

static json_t *endpoint_json(const struct uplink_endpoint_stats *e, const struct now *now) {
        json_t *o = json_pack("{s:s, s:s}", "url", e->url, "dns_error", e->dns_error);

        for (enum uplink_class c = 0; o && c < _UPLINK_CLASS_MAX; c++)
                if (json_object_set_new(o, uplink_class_name(c), route_json(&e->routes[c], now)) < 0) {
                        json_decref(o);
                        o = NULL;
                }
        return o;
}

static json_t *endpoints_json(const struct uplink_stats *s, const struct now *now) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < s->n_endpoints; i++)
                list = api_json_append(list, endpoint_json(&s->endpoints[i], now));
        return list;
}

static json_t *classes_json(const struct uplink_stats *s) {
        json_t *o = json_object();

        for (enum uplink_class c = 0; o && c < _UPLINK_CLASS_MAX; c++)
                if (json_object_set_new(o, uplink_class_name(c), class_json(&s->classes[c])) < 0) {
                        json_decref(o);
                        o = NULL;
                }
        return o;
}

static json_t *certificate_json(const struct tls_files *t) {
        if (!tls_files_configured(t))
                return json_null();
        return json_pack("{s:s, s:o, s:o, s:s, s:s}", "file", t->path[TLS_CERT], "from",
                         api_json_time(t->not_before), "until", api_json_time(t->not_after), "error",
                         t->error, "warning", t->warning);
}

json_t *api_json_uplink(const struct uplink_stats *s, const char *endpoint, usec_t now, usec_t now_real) {
        const struct now both = { now, now_real };

        return json_pack("{s:s, s:b, s:b, s:s, s:s, s:o, s:o, s:o, s:o}", "endpoint", endpoint, "durable",
                         s->durable, "parked", s->parked, "last_error", s->last_error, "spool_error",
                         s->spool_error, "last_ok",
                         api_json_time(s->last_ok_boot > now ? 0 : to_real(s->last_ok_boot, &both)),
                         "endpoints", endpoints_json(s, &both), "certificate", certificate_json(&s->tls),
                         "classes", classes_json(s));
}
