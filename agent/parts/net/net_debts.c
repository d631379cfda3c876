/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At the moment of a suspicion: who owes whom, out of one dump of the sockets,
 * for the registry (docs/registry.md, figures). A host whose own log reports no
 * steps looks when the registry asks for captures, whose record says when the
 * others made their last step.
 */
#include "flow_debts.h"
#include "flow_words.h"
#include "json_text.h"
#include "log.h"
#include "member.h"
#include "net_state.h"
#include "progress_part.h"

struct debts_look {
        const struct flows *flows;
        uint8_t run;
        struct flow_debts debts;
};

static int take_debt(const struct tcp_connection *c, void *userdata) {
        struct debts_look *l = userdata;

        flow_debts_take(&l->debts, l->flows, l->run, c);
        return 0;
}

static json_t *add_msec(json_t *o, const char *key, uint32_t msec) {
        return msec == FLOW_NEVER ? o : json_member_add(o, key, json_integer(msec));
}

static json_t *debt_json(const struct flow_debt *x) {
        char local[FLOW_NAME_MAX], peer[FLOW_NAME_MAX];
        json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:I}", "local",
                              flow_address_text(x->family, x->local, local), "peer",
                              flow_address_text(x->family, x->peer, peer), "turn", flow_turn_name(x->turn),
                              "unread", (json_int_t) MIN(x->unread, (uint64_t) INT64_MAX), "unsent",
                              (json_int_t) MIN(x->unsent, (uint64_t) INT64_MAX));

        o = add_msec(o, "sent", x->sent_msec);
        return add_msec(o, "received", x->received_msec);
}

static json_t *debts_json(const struct net_state *n, const struct flow_debts *d) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < d->n; i++)
                list = json_list_add(list, debt_json(&d->debts[i]));
        return json_pack("{s:I, s:I, s:I, s:i, s:o}", "at", (json_int_t) host_now_real(n->bus->host),
                         "silent", (json_int_t) d->silent_msec, "step", (json_int_t) d->step_msec,
                         "left_out", (int) d->left_out, "peers", list);
}

static uint32_t msec_of(usec_t t) {
        return (uint32_t) MIN(t / USEC_PER_MSEC, (usec_t) INT32_MAX);
}

static uint8_t find_run(const struct flows *f, const char *run) {
        for (uint8_t i = 1; i < FLOW_RUNS_MAX; i++)
                if (streq(f->runs[i], run))
                        return i;
        return FLOW_NOBODY;
}

static void look_at_debts(struct net_state *n, const char *run, usec_t silent, usec_t line) {
        const struct tcp_query query = { .states = TCP_ESTABLISHED_BIT,
                                         .with_info = true,
                                         .max = NET_DUMP_MAX };
        struct debts_look l = { .flows = &n->flows, .run = find_run(&n->flows, run) };
        int r;

        if (!n->on || l.run == FLOW_NOBODY)
                return;
        flow_debts_begin(&l.debts, msec_of(silent),
                         msec_of(line / MAX(progress_steps_a_line(n->bus, run), 1u)), msec_of(line));
        r = tcp_connections_read(n->bus->host, &query, take_debt, &l);
        if (r < 0)
                (void) log_debug_errno(r, "run %s: who owes whom cannot be seen: %m", run);
        else {
                flow_debts_end(&l.debts);
                member_figure(n->bus, run, "debts", debts_json(n, &l.debts));
                member_report_now(n->bus);
        }
}

void net_hear_suspicion(struct net_state *n, const char *run, const struct suspicion *s) {
        usec_t now = host_now(n->bus->host);

        if (s)
                look_at_debts(n, run, now - MIN(now, s->since), s->expected);
        else
                member_figure(n->bus, run, "debts", NULL);
}

/* run "": of the one that runs here. */
void net_hear_request(struct net_state *n, const json_t *record) {
        usec_t now = host_now_real(n->bus->host), since = json_number_of(record, "since");
        const struct host_runs *l = n->bus->runs;
        const char *run = json_text_of(record, "run");

        if (!json_is_true(json_object_get(record, "suspected")) || since == 0 || since > now)
                return;
        for (size_t i = 0; i < l->n; i++)
                if (host_run_lives(&l->runs[i]) && (!run[0] || streq(run, l->runs[i].name)) &&
                    !progress_suspicion(n->bus, l->runs[i].name))
                        look_at_debts(n, l->runs[i].name, now - since, json_number_of(record, "step_time"));
}
