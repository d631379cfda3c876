/* SPDX-License-Identifier: Apache-2.0 */
#include "api_json.h"

#include "calls.h"
#include "clock.h"
#include "report.h"
#include "uplink_part.h"

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

/* --- Checks -------------------------------------------------------------------------------------------- */

/* The check's own reason, else what was found beside what was wanted. */
static json_t *reason_json(const struct kept_finding *f) {
        char text[sizeof(((struct finding *) NULL)->found) + sizeof(((struct finding *) NULL)->wanted) + 32];

        if (f->reason[0])
                return json_string(f->reason);
        if (f->wanted[0])
                (void) snprintf(text, sizeof(text), "found %s, wanted %s", f->found, f->wanted);
        else
                (void) snprintf(text, sizeof(text), "found %s", f->found);
        return json_string(text);
}

/* Adds since when a check counts as it does, how often it got worse, and when it was last good. */
static json_t *add_history(json_t *o, const struct check_health *h, const struct now *now) {
        json_t *history = json_pack("{s:o, s:I, s:o, s:b}", "since", answer_instant(to_real(h->since, now)),
                                    "worsened", (json_int_t) h->worsened, "last_good",
                                    answer_instant(to_real(h->last_good, now)), "flapping", h->flapping);

        if (o && history && json_object_update(o, history) >= 0) {
                json_decref(history);
                return o;
        }
        json_decref(history);
        json_decref(o);
        return NULL;
}

json_t *api_json_reasons(const struct check_table *t, usec_t now, usec_t now_real) {
        const struct now both = { now, now_real };
        json_t *list = json_array(), *o;

        for (size_t i = 0; list && i < t->n; i++) {
                const struct kept_finding *f = t->entries[i].settled;

                if (t->health[i].settled == VERDICT_OK || !check_health_counts(&t->health[i]))
                        continue;
                o = json_pack("{s:s, s:s, s:s, s:o, s:s}", "check", f->check, "subject", f->subject,
                              "verdict", verdict_name(t->health[i].settled), "reason", reason_json(f),
                              "remedy", f->remedy);
                list = json_list_add(list, add_history(o, &t->health[i], &both));
        }
        return list;
}

static json_t *check_json(const struct check_entry *e, const struct check_health *h, const struct now *now) {
        struct finding latest;
        json_t *o;

        kept_finding_unpack(e->latest, &latest);
        o = finding_to_json(&latest);

        if (o && json_object_set_new(o, "settled", json_string(verdict_name(h->settled))) >= 0 &&
            json_object_set_new(o, "silenced", json_boolean(h->silenced)) >= 0)
                return add_history(o, h, now);
        json_decref(o);
        return NULL;
}

json_t *api_json_checks(const struct check_table *t, usec_t now, usec_t now_real) {
        const struct now both = { now, now_real };
        json_t *list = json_array();

        for (size_t i = 0; list && i < t->n; i++)
                list = json_list_add(list, check_json(&t->entries[i], &t->health[i], &both));
        return list ? json_pack("{s:o}", "checks", list) : NULL;
}

/* --- The uplink: what waits, was sent, was lost and why, and where it goes ------------------------------
 */

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
                         "damaged", number(c->spool.damaged), "oldest", answer_instant(c->oldest_real),
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
                         answer_instant(until > now->boot ? to_real(until, now) : 0));
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
                list = json_list_add(list, endpoint_json(&s->endpoints[i], now));
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
                         answer_instant(t->not_before), "until", answer_instant(t->not_after), "error",
                         t->error, "warning", t->warning);
}

json_t *api_json_uplink(const struct uplink_stats *s, const char *endpoint, usec_t now, usec_t now_real) {
        const struct now both = { now, now_real };

        return json_pack("{s:s, s:b, s:b, s:s, s:s, s:o, s:o, s:o, s:o}", "endpoint", endpoint, "durable",
                         s->durable, "parked", s->parked, "last_error", s->last_error, "spool_error",
                         s->spool_error, "last_ok",
                         answer_instant(s->last_ok_boot > now ? 0 : to_real(s->last_ok_boot, &both)),
                         "endpoints", endpoints_json(s, &both), "certificate", certificate_json(&s->tls),
                         "classes", classes_json(s));
}

/* --- The host ------------------------------------------------------------------------------------------ */

static json_t *count_live_runs(const struct host_runs *l) {
        json_int_t running = 0;

        if (!l->known)
                return json_null();
        for (size_t i = 0; i < l->n; i++)
                running += !streq(l->runs[i].state, "exited");
        return json_integer(running);
}

json_t *api_json_status(const struct api_status *s) {
        return json_pack("{s:s, s:s, s:s, s:s, s:o, s:{s:s?, s:s?, s:s?}, s:o, s:o, s:o}", "host", s->host,
                         "boot_id", s->boot_id, "version", TPU_HOSTD_VERSION, "state",
                         host_state_name(check_table_state(s->checks)), "reasons",
                         api_json_reasons(s->checks, s->now, s->now_real), "identity", "slice",
                         identity_get(s->identity, IDENTITY_SLICE_NAME), "worker_id",
                         identity_get(s->identity, IDENTITY_WORKER_ID), "accelerator_type",
                         identity_get(s->identity, IDENTITY_ACCELERATOR_TYPE), "live_runs", count_live_runs(s->runs),
                         "uplink", api_json_uplink(s->uplink, s->endpoint, s->now, s->now_real), "started",
                         answer_instant(s->started_real));
}
