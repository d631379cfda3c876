/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/net: the links of this host to its peers, the worst first (docs/api.md). */
#include <ctype.h>
#include <malloc.h>

#include "bpf_part.h"
#include "calls.h"
#include "net_state.h"
#include "flow_words.h"
#include "json_text.h"
#include "net_drops.h"

#define DROPS_MAX 6

static double seconds(uint64_t usec) {
        return (double) usec / 1e6;
}

static json_int_t whole(uint64_t n) {
        return (json_int_t) MIN(n, (uint64_t) INT64_MAX);
}

/* {retransmits, …}: of the interval, or of all the time. */
static json_t *counts_json(const union flow_counts *c) {
        return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I}", "retransmits",
                         whole(c->retransmits), "timeouts", whole(c->timeouts), "syn_retries",
                         whole(c->syn_retries), "segments", whole(c->segments), "sent_bytes",
                         whole(c->sent_bytes), "received_bytes", whole(c->received_bytes), "busy",
                         seconds(c->busy_usec), "receive_window_limited", seconds(c->receiver_usec),
                         "send_buffer_limited", seconds(c->buffer_usec), "drops", whole(c->drops));
}

/* What BPF counted, null where it did not. */
static json_t *events_json(const struct flow_link *l) {
        static const char *const names[_FLOW_EVENT_MAX] = {
                [FLOW_FAST] = "fast",
                [FLOW_RTO] = "rto",
                [FLOW_PROBE] = "probes",
                [FLOW_SYN] = "syns",
                [FLOW_EXPIRED] = "timeouts",
                [FLOW_RESETS_SENT] = "resets_sent",
                [FLOW_RESETS_RECEIVED] = "resets_received",
                [FLOW_CONNECTS] = "connects",
                [FLOW_CONNECT_FAILURES] = "connect_failures",
        };
        json_t *o = l->has_events ? json_object() : json_null();

        for (size_t k = 0; l->has_events && k < _FLOW_EVENT_MAX; k++)
                o = json_member_add(o, names[k], json_integer(whole(l->events[k])));
        return o;
}

static json_t *usec_or_null(uint32_t usec) {
        return usec > 0 ? json_real(seconds(usec)) : json_null();
}

static json_t *link_json(const struct flows *f, const struct flow_link *l) {
        char peer[FLOW_NAME_MAX], address[FLOW_NAME_MAX], local[FLOW_NAME_MAX], text[FLOW_TEXT_MAX];
        json_t *wrong = l->wrong_nic ? json_string(f->nics[l->wrong_nic].name) : json_null();

        flow_link_text(f, l, text);
        return json_pack(
                "{s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:s, s:i, s:i, s:i, s:i, s:f, s:o, s:o, s:I, s:i, s:i, "
                "s:I, s:o, s:o, s:o, s:o}",
                "peer", flow_peer_text(l, peer), "address", flow_address_text(l->family, l->peer, address),
                "local", flow_address_text(l->family, l->local, local), "nic", f->nics[l->nic].name, "run",
                f->runs[l->run], "worker", l->is_worker, "bad", l->bad, "text", text, "connections",
                (int) l->connections, "connecting", (int) l->connecting, "silent", (int) l->silent,
                "receive_buffer_full", (int) l->full, "silence", (double) l->silent_msec / 1e3, "rtt",
                usec_or_null(l->srtt_usec), "min_rtt", usec_or_null(l->min_rtt_usec), "delivery_rate",
                whole(l->delivery_rate), "unacked", (int) MIN(l->unacked, (uint32_t) INT32_MAX), "lost",
                (int) MIN(l->lost, (uint32_t) INT32_MAX), "receive_space", whole(l->receive_space),
                "leaves_by", wrong, "interval", counts_json(&l->now), "total", counts_json(&l->total),
                "kernel", events_json(l));
}

/* Links that BPF alone knows are shown when something was counted; what this host has with itself is no
 * network's. */
static bool is_shown(const struct flow_link *l) {
        uint64_t all = 0;

        for (size_t k = 0; k < _FLOW_EVENT_MAX; k++)
                all += l->events[k];
        return l->used && (l->seen > 0 || (all > 0 && !net_is_loopback(l->family, l->peer)));
}

/* Whether the link is to what a person calls "5", "worker 5" or "10.0.0.6". */
static bool is_wanted(const struct flow_link *l, const char *wanted) {
        char address[FLOW_NAME_MAX];
        size_t words = strlen("worker ");

        return !wanted || streq(l->name, wanted) ||
               streq(flow_address_text(l->family, l->peer, address), wanted) ||
               (isdigit((unsigned char) wanted[0]) && startswith(l->name, "worker ") &&
                streq(l->name + words, wanted));
}

static int compare_links(const void *x, const void *y) {
        const struct flow_link *const *a = x, *const *b = y;

        return flow_compare(*a, *b);
}

static json_t *links_json(const struct flows *f, const char *wanted) {
        _cleanup_free_ const struct flow_link **sorted =
                calloc(MAX(f->n_links, (size_t) 1), sizeof(*sorted));
        json_t *list = sorted ? json_array() : NULL;
        size_t n = 0;

        for (size_t i = 0; list && i < f->n_links; i++)
                if (is_shown(&f->links[i]) && is_wanted(&f->links[i], wanted))
                        sorted[n++] = &f->links[i];
        if (n > 1)
                qsort(sorted, n, sizeof(*sorted), compare_links);
        for (size_t i = 0; list && i < n; i++)
                list = json_list_add(list, link_json(f, sorted[i]));
        return list;
}

/* How the traffic of each run is spread over the NICs. */
static json_t *nics_json(const struct flows *f) {
        json_t *list = json_array();

        for (size_t run = 1; run < FLOW_RUNS_MAX; run++) {
                uint64_t all = 0;

                for (size_t nic = 1; nic < FLOW_NICS_MAX; nic++)
                        all += f->sums[run][nic].now.sent_bytes + f->sums[run][nic].now.received_bytes;
                for (size_t nic = 1; list && nic < FLOW_NICS_MAX; nic++) {
                        const struct flow_sum *u = &f->sums[run][nic];
                        uint64_t bytes = u->now.sent_bytes + u->now.received_bytes;

                        if (u->connections == 0 && u->total.segments == 0)
                                continue;
                        list = json_list_add(
                                list,
                                json_pack("{s:s, s:s, s:i, s:i, s:o, s:o, s:o}", "nic", f->nics[nic].name,
                                          "run", f->runs[run], "connections", (int) u->connections,
                                          "bad_links", (int) u->bad, "share",
                                          all > 0 ? json_real((double) bytes / (double) all) : json_null(),
                                          "interval", counts_json(&u->now), "total",
                                          counts_json(&u->total)));
                }
        }
        return list;
}

static json_t *receive_json(const struct flows *f) {
        char text[FLOW_TEXT_MAX];
        enum verdict v = flow_receive_text(f, text);

        return json_pack("{s:s, s:s, s:I}", "verdict", verdict_name(v), "text", text, "limit",
                         whole(f->receive_max));
}

/* --- BPF, without a peer ---------------------------------------------------------------------------- */

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
        uint64_t packets[NET_DROPS] = { 0 };
        json_t *list = json_array();

        for (size_t i = 0; i < NET_DROPS; i++)
                if (__atomic_load_n(&f->drop_use[i], __ATOMIC_ACQUIRE) == NET_USED &&
                    net_drop_meaning(f, &f->dropped[i]))
                        packets[i] = net_drop_packets(f, i);
        for (size_t n = 0; list && n < DROPS_MAX; n++) {
                size_t most = 0;

                for (size_t i = 1; i < NET_DROPS; i++)
                        if (packets[i] > packets[most])
                                most = i;
                if (packets[most] == 0)
                        break;
                list = json_list_add(list, drop_json(f, most));
                packets[most] = 0;
        }
        return list;
}

/* null where BPF does not run. */
static json_t *kernel_json(const struct flows *flows, const struct net_figures *f) {
        uint64_t connects = 0, failures = 0;

        if (!f)
                return json_null();
        for (size_t i = 0; i < flows->n_links; i++)
                if (!net_is_loopback(flows->links[i].family, flows->links[i].peer)) {
                        connects += flows->links[i].events[FLOW_CONNECTS];
                        failures += flows->links[i].events[FLOW_CONNECT_FAILURES];
                }
        return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:o}", "drops", drops_json(f), "dropped",
                         whole(net_dropped(f)), "unplaced", whole(f->drops_unplaced), "uncounted",
                         whole(net_uncounted(f)), "connects", whole(connects), "connect_failures",
                         whole(failures), "connect_mean",
                         f->all.connects > 0
                                 ? json_real((double) f->all.connect_ns / (double) f->all.connects / 1e9)
                                 : json_null());
}

int get_net(void *self, const struct http_request *r, struct http_reply *ret) {
        const struct net_state *n = self;
        const struct flows *f = &n->flows;
        char text[FLOW_TEXT_MAX];
        usec_t now = host_now(n->bus->host);
        int k;

        if (n->on && n->failed)
                return answer_error(ret, 503, "journalctl -u tpu-hostd",
                                          "the TCP connections cannot be looked at: %s", n->why_not);
        if (n->on)
                flow_summary(f, text);
        else
                (void) snprintf(text, sizeof(text),
                                "no run is known on this host: its connections are not looked at");
        k = answer_json(
                ret, 200,
                json_pack("{s:s, s:s, s:o, s:f, s:I, s:I, s:b, s:b, s:o, s:o, s:o, s:o}", "verdict",
                          verdict_name(!n->on || f->span == 0 ? VERDICT_UNKNOWN
                                       : n->bad > 0           ? VERDICT_WARN
                                                              : VERDICT_OK),
                          "text", text, "looked",
                          n->on && f->at > 0 && now >= f->at
                                  ? answer_instant(host_now_real(n->bus->host) - (now - f->at))
                                  : json_null(),
                          "interval", seconds(f->span), "sockets", whole(f->sockets), "left_out",
                          whole(f->left_out), "exact_timeouts", f->exact_timeouts, "runs_told", f->runs_told,
                          "links", links_json(f, route_text(r, "peer")), "nics", nics_json(f),
                          "receive_buffer",
                          receive_json(f), "kernel", kernel_json(f, bpf_net_figures(n->bus))));
        if (f->n_links > 64)
                (void) malloc_trim(0); /* many links are some hundred KiB of JSON, and this process is small
                                          between calls */
        return k;
}
