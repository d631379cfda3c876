/* SPDX-License-Identifier: Apache-2.0 */
/* A request for the bandwidth of pairs, from its record to the report: round by round. */
#include "json_text.h"
#include "log.h"
#include "loop_timer.h"
#include "member.h"
#include "pairs_state.h"
#include "paths.h"
#include "run_record.h"
#include "utf8.h"

const json_t *pairs_host(const struct pairs_state *p, unsigned worker) {
        return slice_entry(member_slice_record(p->bus), "roster", worker);
}

const char *pairs_address(const json_t *host, unsigned nic) {
        const char *text = json_string_value(json_array_get(json_object_get(host, "address"), nic));

        return text ? text : "";
}

void pairs_step_soon(struct pairs_state *p) {
        (void) loop_timer_in(p->timer, 0); /* fails only when the loop ends */
}

/* What is to be asked again is so at the next step. */
static void on_news(void *userdata) {
        struct pairs_state *p = userdata;

        if (!p->pull || pair_pull_state(p->pull)->state != PULL_LATER)
                pairs_step_soon(p);
}

/* The first is said. */
_printf_(2, 3) static void not_measured(struct pairs_state *p, const char *fmt, ...) {
        va_list ap;

        if (p->why[0])
                return;
        va_start(ap, fmt);
        (void) vsnprintf(p->why, sizeof(p->why), fmt, ap);
        va_end(ap);
        (void) utf8_scrub(p->why, strlen(p->why));
}

/* --- The report ---------------------------------------------------------------------------------------- */

/* Nobody is sent anything any more. */
static void let_go(struct pairs_state *p) {
        if (p->serving)
                p->serving->part = NULL;
        p->serving = NULL;
}

void pairs_drop(struct pairs_state *p) {
        p->pull = pair_pull_free(p->pull);
        let_go(p);
        p->at_work = false;
        json_decref(TAKE_PTR(p->received));
}

static void report(struct pairs_state *p) {
        json_t *received = p->received ? json_incref(p->received) : json_array();

        if (p->why[0])
                log_notice("the bandwidth of pairs: %s", p->why);
        member_say_pairs(p->bus, json_pack("{s:I, s:s, s:i, s:o}", "number", (json_int_t) p->number, "why",
                                           p->why, "core", (int) p->core, "received", received));
        pairs_drop(p);
}

/* --- A round ------------------------------------------------------------------------------------------- */

static void keep_rate(struct pairs_state *p, const struct pulled *x) {
        p->core = MAX(p->core, x->core);
        p->received = json_list_add(p->received, json_pack("{s:i, s:i, s:I}", "worker", p->partner, "nic",
                                                           (int) p->nic, "rate", (json_int_t) x->rate));
}

static uint16_t port_of(const struct pairs_state *p) {
        const char *colon = strrchr(p->bus->settings.api.listen, ':');
        unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;

        return port > 0 && port <= UINT16_MAX ? (uint16_t) port : PORT_HOSTD_API;
}

static void start_pull(struct pairs_state *p) {
        const json_t *host = pairs_host(p, (unsigned) p->partner);
        const struct pair_pull_options o = { .host = json_text_of(host, "host"),
                                             .to = pairs_address(host, p->nic),
                                             .from = pairs_address(pairs_host(p, p->worker), p->nic),
                                             .port = port_of(p),
                                             .number = p->number,
                                             .round = p->round,
                                             .nic = p->nic,
                                             .tls = member_tls(p->bus) };
        int r = pair_pull_new(p->bus->event, &o, on_news, p, &p->pull);

        if (r < 0) {
                not_measured(p, "%s cannot be asked: %s", o.host, strerror(-r));
                p->nic++;
        }
}

/* What has come of the question that is open. */
static void take_pull(struct pairs_state *p) {
        const struct pulled *x = pair_pull_state(p->pull);

        if (x->state == PULL_ASKS || x->state == PULL_COMES)
                return;
        if (x->state == PULL_LATER) {
                if (!p->serving && pair_pull_again(p->pull) >= 0)
                        return;
        } else {
                if (x->state == PULL_DONE)
                        keep_rate(p, x);
                else
                        not_measured(p, "%s: %s",
                                     json_text_of(pairs_host(p, (unsigned) p->partner), "host"), x->why);
                p->nic++;
        }
        p->pull = pair_pull_free(p->pull);
}

static void enter_round(struct pairs_state *p) {
        const json_t *mine = pairs_host(p, p->worker), *its;

        p->nic = p->nics = p->served = 0;
        p->partner = pair_partner(p->hosts, p->worker, p->round);
        if (p->partner < 0)
                return;
        its = pairs_host(p, (unsigned) p->partner);
        while (p->nics < PAIR_NICS_MAX && *pairs_address(mine, p->nics) && *pairs_address(its, p->nics))
                p->nics++;
        if (p->nics == 0)
                not_measured(p, "worker %d has left, or one of both hosts has reported no address",
                             p->partner);
}

/* Of a round, however many NICs there are: all hosts give up at the same time. */
static bool round_is_over(struct pairs_state *p, usec_t now) {
        if (!p->pull && !p->serving && p->nic >= p->nics && p->served >= p->nics)
                return true;
        if (now < p->began + pair_deadline(p->round, p->most))
                return false;
        not_measured(p, "%s was not ready in time, or cannot reach this host at port %u",
                     json_text_of(pairs_host(p, (unsigned) MAX(p->partner, 0)), "host"), port_of(p));
        p->pull = pair_pull_free(p->pull);
        let_go(p);
        return true;
}

bool pairs_are_disturbed(const struct pairs_state *p, char *buf, size_t size) {
        const struct host_runs *runs = p->bus->runs;
        size_t n = runs->known ? host_runs_living(runs) : 0;

        if (!runs->known)
                (void) snprintf(buf, size, "tpu-launchd does not say what runs here");
        else if (n > 0)
                (void) snprintf(buf, size, "%s%.60s here: nothing is measured beside a run",
                                n == 1 ? "run " : "runs are", n == 1 ? host_runs_only(runs) : "");
        return !runs->known || n > 0;
}

int pairs_on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct pairs_state *p = userdata;
        usec_t now = host_now(p->bus->host);
        char disturbed[128];

        (void) source, (void) usec;
        pairs_begin(p);
        if (!p->at_work)
                return 0;
        if (pairs_are_disturbed(p, disturbed, sizeof(disturbed))) {
                p->why[0] = '\0';
                not_measured(p, "%s", disturbed);
                report(p);
                return 0;
        }
        if (p->pull)
                take_pull(p);
        while (round_is_over(p, now)) {
                if (++p->round >= pair_rounds(p->hosts)) {
                        report(p);
                        return 0;
                }
                enter_round(p);
        }
        if (!p->pull && !p->serving && p->nic < p->nics)
                start_pull(p);
        (void) loop_timer_in(p->timer, PAIRS_STEP); /* fails only when the loop ends */
        return 0;
}

/* As the planner counts them. */
static unsigned most_nics(const struct pairs_state *p) {
        unsigned most = 1;
        const json_t *h;
        size_t i;

        json_array_foreach(json_object_get(member_slice_record(p->bus), "roster"), i, h)
                most = MAX(most, (unsigned) MIN(json_array_size(json_object_get(h, "address")),
                                                (size_t) PAIR_NICS_MAX));
        return most;
}

/* --- The request --------------------------------------------------------------------------------------- */

static bool is_too_often(struct pairs_state *p, usec_t now) {
        usec_t *oldest = &p->obeyed[p->next_obeyed];

        if (*oldest > 0 && now < *oldest + 3600 * USEC_PER_SEC)
                return true;
        *oldest = now;
        p->next_obeyed = (p->next_obeyed + 1) % PAIRS_AN_HOUR;
        return false;
}

/* Why this host cannot take part; empty: it can. */
static void object(struct pairs_state *p) {
        const struct settings_api *api = &p->bus->settings.api;
        const json_t *slice = member_slice_record(p->bus);
        char disturbed[128];

        if (pairs_are_disturbed(p, disturbed, sizeof(disturbed)))
                not_measured(p, "%s", disturbed);
        else if (!api->certificate[0] || !api->key[0] || !api->client_ca[0])
                not_measured(p,
                             "port %u does not listen: Certificate=, Key= and ClientCa= of [Api] in "
                             "hostd.conf open it",
                             port_of(p));
        else if (!member_tls(p->bus)->path[TLS_CERT][0])
                not_measured(p, "this host has no certificate to show to others: CertFile= and KeyFile= of "
                                "[Uplink] or [Registry] in hostd.conf");
        else if (json_number_of(slice, "generation") != json_number_of(p->record, "generation") ||
                 !pairs_host(p, p->worker))
                not_measured(p, "the slice is of another generation by now");
        else if (is_too_often(p, host_now(p->bus->host)))
                not_measured(p, "%d requests within an hour are the limit of this host", PAIRS_AN_HOUR);
}

void pairs_begin(struct pairs_state *p) {
        uint64_t number = json_number_of(p->record, "number"), hosts = json_number_of(p->record, "hosts");

        if (number == 0 || number == p->number || !streq(json_text_of(p->record, "state"), "asked"))
                return;
        pairs_drop(p);
        p->number = number;
        p->worker = member_of(p->bus)->worker;
        p->why[0] = '\0';
        p->core = 0;
        if (hosts < 2 || hosts > UINT16_MAX || p->worker >= hosts)
                not_measured(p, "the request cannot be understood");
        else
                object(p);
        if (p->why[0]) {
                report(p);
                return;
        }
        p->hosts = (unsigned) hosts;
        p->most = most_nics(p);
        p->received = json_array();
        p->began = host_now(p->bus->host);
        p->round = 0;
        p->at_work = true;
        enter_round(p);
        log_info("the bandwidth to %u other hosts of slice %s is measured", pair_rounds(p->hosts),
                 member_of(p->bus)->slice);
}
