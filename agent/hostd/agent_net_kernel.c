/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel's programs counted, for GET /v1/net: by peer, NIC and run, since the agent started. */
#include "agent_bpf.h"
#include "agent_calls.h"
#include "api_json.h"
#include "net_samples.h"

#define DROPS_MAX 6

static json_int_t whole(uint64_t n) {
        return (json_int_t) MIN(n, (uint64_t) INT64_MAX);
}

static json_t *row_json(const struct net_row *r) {
        return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "peer",
                         r->name.peer, "nic", r->name.nic, "job", r->name.job, "fast",
                         whole(r->retransmits[NET_FAST]), "rto", whole(r->retransmits[NET_RTO]), "timeouts",
                         whole(r->timeouts), "probes", whole(r->retransmits[NET_PROBE]), "syns",
                         whole(r->retransmits[NET_SYN]), "resets_sent", whole(r->resets_sent),
                         "resets_received", whole(r->resets_received), "connects", whole(r->connects),
                         "connect_failures", whole(r->connect_failures));
}

/* A worker is asked for by its number, too, as of links. */
static bool is_wanted(const struct net_row *r, const char *wanted) {
        return !wanted || streq(r->name.peer, wanted) ||
               (startswith(r->name.peer, "worker ") && streq(r->name.peer + strlen("worker "), wanted));
}

/* What this host has with itself is no network's. */
static bool is_loopback(const struct net_row *r) {
        return startswith(r->name.peer, "127.") || streq(r->name.peer, "::1");
}

static bool has_counted(const struct net_row *r) {
        uint64_t all = r->timeouts + r->resets_sent + r->resets_received + r->connects + r->connect_failures;

        for (size_t k = 0; k < _NET_RETRANSMIT_MAX; k++)
                all += r->retransmits[k];
        return all > 0;
}

static json_t *rows_json(const struct net_rows *rows, const char *wanted) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < rows->n; i++)
                if (has_counted(&rows->rows[i]) && !is_loopback(&rows->rows[i]) &&
                    is_wanted(&rows->rows[i], wanted))
                        list = api_json_append(list, row_json(&rows->rows[i]));
        return list;
}

static json_t *drop_json(const struct net_figures *f, size_t at) {
        const struct net_drop *d = &f->dropped[at];
        char reason[NET_REASON_NAME], place[NET_SYMBOL];

        net_drop_reason(f, d, reason);
        net_drop_place(d, place);
        return json_pack("{s:s, s:s, s:I, s:s}", "reason", reason, "place", place, "packets",
                         whole(net_drop_packets(f, at)), "meaning", net_drop_meaning(f, d)->meaning);
}

/* Those that somebody should look at, the most first; the figures go on rising meanwhile. */
static json_t *drops_json(const struct net_figures *f) {
        bool told[NET_DROPS] = { false };
        uint64_t packets[NET_DROPS] = { 0 };
        json_t *list = json_array();

        for (size_t i = 0; i < NET_DROPS; i++)
                if (__atomic_load_n(&f->drop_use[i], __ATOMIC_ACQUIRE) == NET_USED && net_drop_meaning(f, &f->dropped[i]))
                        packets[i] = net_drop_packets(f, i);
        for (size_t n = 0; list && n < DROPS_MAX; n++) {
                size_t most = NET_DROPS;

                for (size_t i = 0; i < NET_DROPS; i++)
                        if (!told[i] && packets[i] > (most == NET_DROPS ? 0 : packets[most]))
                                most = i;
                if (most == NET_DROPS)
                        break;
                told[most] = true;
                list = api_json_append(list, drop_json(f, most));
        }
        return list;
}

json_t *agent_net_kernel_json(const struct agent *a, const char *peer) {
        const struct net_figures *f = agent_bpf_figures(a);
        const struct net_rows *rows = agent_bpf_rows(a);
        uint64_t connects = 0, failures = 0;

        if (!f || !rows)
                return json_null();
        for (size_t i = 0; i < rows->n; i++)
                if (!is_loopback(&rows->rows[i])) {
                        connects += rows->rows[i].connects;
                        failures += rows->rows[i].connect_failures;
                }
        return json_pack("{s:o, s:o, s:I, s:I, s:o}", "peers", rows_json(rows, peer), "drops", drops_json(f),
                         "connects", whole(connects), "connect_failures", whole(failures), "connect_mean",
                         f->all.connects > 0
                                 ? json_real((double) f->all.connect_ns / (double) f->all.connects / 1e9)
                                 : json_null());
}
