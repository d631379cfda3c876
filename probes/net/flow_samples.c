/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_samples.h"

#include <assert.h>
#include <math.h>

#include "flow_words.h"
#include "probe.h"

#define OTHER "other"

/* What all metrics of links have: who, by which NIC, and whose. The last one is the metric's own. */
struct label {
        const char *peer, *nic, *run, *address, *own;
        char texts[2][FLOW_NAME_MAX];
};

static void label_link(const struct flows *f, const struct flow_link *l, struct label *ret) {
        ret->peer = flow_peer_text(l, ret->texts[0]);
        ret->address = flow_address_text(l->family, l->peer, ret->texts[1]);
        ret->nic = f->nics[l->nic].name;
        ret->run = f->runs[l->run];
        ret->own = NULL;
}

static struct sample sample_of(enum metric_id id, const struct label *l) {
        const struct metric_def *d = metric_def(id);
        struct sample m = { .name = d->name,
                            .unit = d->unit,
                            .description = d->description,
                            .kind = d->kind,
                            .values = { l->peer, l->nic, l->run, l->address, l->own } };

        memcpy(m.keys, d->keys, sizeof(m.keys));
        return m;
}

static void put_count(struct sink *s, enum metric_id id, uint64_t n, const struct label *l) {
        struct sample m = sample_of(id, l);

        m.is_int = true;
        m.i = (int64_t) MIN(n, (uint64_t) INT64_MAX);
        s->sample(s, &m);
}

static void put_real(struct sink *s, enum metric_id id, double v, const struct label *l) {
        struct sample m = sample_of(id, l);

        m.d = v;
        s->sample(s, &m);
}

/* --- Sockets ------------------------------------------------------------------------------------------- */

/* Without BPF nobody knows what made TCP send them again, but for those of connections that are begun. */
static void put_retransmits(uint64_t retransmits, uint64_t syn_retries, struct label *l, struct sink *s) {
        assert(syn_retries <= retransmits);
        l->own = "unknown";
        put_count(s, METRIC_NET_RETRANSMITS, retransmits - syn_retries, l);
        l->own = "syn";
        put_count(s, METRIC_NET_RETRANSMITS, syn_retries, l);
        l->own = NULL;
}

static void put_link(const struct flows *f, const struct flow_link *l, struct sink *s) {
        struct label label;

        label_link(f, l, &label);
        put_count(s, METRIC_NET_TIMEOUTS, l->total.timeouts - l->before.timeouts, &label);
        if (!f->has_events)
                put_retransmits(l->total.retransmits - l->before.retransmits,
                                l->total.syn_retries - l->before.syn_retries, &label, s);
        put_count(s, METRIC_NET_BAD, l->bad, &label);
        if (l->srtt_usec > 0)
                put_real(s, METRIC_NET_SRTT, (double) l->srtt_usec / 1e6, &label);
        if (l->min_rtt_usec > 0)
                put_real(s, METRIC_NET_MIN_RTT, (double) l->min_rtt_usec / 1e6, &label);
        if (l->delivery_rate > 0)
                put_count(s, METRIC_NET_DELIVERY_RATE, l->delivery_rate, &label);
}

static void put_round_trips(const struct flow_rtts *r, const char *nic, const char *run, struct sink *s) {
        const struct sample_histogram h = { .count = r->n,
                                            .sum = r->sum,
                                            .min = NAN,
                                            .max = NAN,
                                            .bounds = flow_rtt_bounds,
                                            .counts = r->counts,
                                            .n_bounds = FLOW_RTT_BOUNDS };

        if (r->n > 0)
                put_histogram(s, METRIC_NET_RTT, &h, nic, run);
}

static void put_sum(const struct flows *f, uint8_t run, uint8_t nic, struct sink *s) {
        const struct flow_sum *u = &f->sums[run][nic];
        const char *name = f->nics[nic].name, *run_name = f->runs[run];
        struct label other = { .peer = OTHER, .nic = name, .run = run_name, .address = "" };

        put_uint(s, METRIC_NET_IO, u->total.sent_bytes, name, run_name, "transmit");
        put_uint(s, METRIC_NET_IO, u->total.received_bytes, name, run_name, "receive");
        put_uint(s, METRIC_NET_SEGMENTS, u->total.segments, name, run_name, NULL);
        put_uint(s, METRIC_NET_DROPS, u->total.drops, name, run_name, NULL);
        put_int(s, METRIC_NET_CONNECTIONS, u->connections, name, run_name, NULL);
        put_int(s, METRIC_NET_BAD_LINKS, u->bad, name, run_name, NULL);
        put_int(s, METRIC_NET_RECEIVE_FULL, u->full, name, run_name, NULL);
        put_double(s, METRIC_NET_SEND_TIME, (double) u->total.busy_usec / 1e6, name, run_name, "busy");
        put_double(s, METRIC_NET_SEND_TIME, (double) u->total.receiver_usec / 1e6, name, run_name,
                   "receive_window");
        put_double(s, METRIC_NET_SEND_TIME, (double) u->total.buffer_usec / 1e6, name, run_name,
                   "send_buffer");
        put_round_trips(&f->rtts[run][nic], name, run_name, s);
        if (u->unnamed.segments == 0)
                return;
        put_count(s, METRIC_NET_TIMEOUTS, u->unnamed.timeouts, &other);
        if (!f->has_events)
                put_retransmits(u->unnamed.retransmits, u->unnamed.syn_retries, &other, s);
}

void flow_samples(const struct flows *f, struct sink *s) {
        for (size_t i = 0; i < f->n_links; i++)
                if (f->links[i].used && f->links[i].named && flow_is_judged(&f->links[i]))
                        put_link(f, &f->links[i], s);
        for (uint8_t run = 1; run < FLOW_RUNS_MAX; run++)
                for (uint8_t nic = 1; nic < FLOW_NICS_MAX && f->runs[run][0]; nic++)
                        if (f->nics[nic].index &&
                            (f->sums[run][nic].total.segments > 0 || f->sums[run][nic].connections > 0))
                                put_sum(f, run, nic, s);
        put_uint(s, METRIC_NET_LEFT_OUT, f->left_out, NULL, NULL, NULL);
}

/* --- BPF ----------------------------------------------------------------------------------------------- */

static void put_events(const uint64_t *events, const uint64_t *before, struct label *l, struct sink *s) {
        static const struct {
                enum metric_id id;
                const char *own;
        } told[_FLOW_EVENT_MAX] = {
                [FLOW_FAST] = { METRIC_NET_RETRANSMITS, "fast" },
                [FLOW_RTO] = { METRIC_NET_RETRANSMITS, "timeout" },
                [FLOW_PROBE] = { METRIC_NET_RETRANSMITS, "probe" },
                [FLOW_SYN] = { METRIC_NET_RETRANSMITS, "syn" },
                [FLOW_RESETS_SENT] = { METRIC_NET_RESETS, "transmit" },
                [FLOW_RESETS_RECEIVED] = { METRIC_NET_RESETS, "receive" },
                [FLOW_CONNECTS] = { METRIC_NET_CONNECTS, "established" },
                [FLOW_CONNECT_FAILURES] = { METRIC_NET_CONNECTS, "failed" },
        };

        for (size_t k = 0; k < _FLOW_EVENT_MAX; k++) {
                l->own = told[k].own;
                if (told[k].own && events[k] > before[k])
                        put_count(s, told[k].id, events[k] - before[k], l);
        }
}

void flow_event_samples(const struct flows *f, struct sink *s) {
        static const uint64_t none[_FLOW_EVENT_MAX];
        struct label label;

        for (size_t i = 0; i < f->n_links; i++)
                if (f->links[i].used && f->links[i].named) {
                        label_link(f, &f->links[i], &label);
                        put_events(f->links[i].events, f->links[i].events_before, &label, s);
                }
        for (size_t run = 0; run < FLOW_RUNS_MAX; run++)
                for (size_t nic = 0; nic < FLOW_NICS_MAX; nic++) {
                        if (!flows_has(f, run, nic))
                                continue;
                        label = (struct label){
                                .peer = OTHER, .nic = f->nics[nic].name, .run = f->runs[run], .address = ""
                        };
                        put_events(f->sums[run][nic].events, none, &label, s);
                }
}
