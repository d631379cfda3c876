/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_samples.h"

#include <math.h>

#include "flow_words.h"
#include "names.h"

#define OTHER "other"

void flow_name_link(struct flows *f, struct flow_link *l) {
        size_t most = l->bad ? FLOW_NAMED_MAX : FLOW_NAMED_MAX - FLOW_NAMED_BAD;

        if (l->named || !flow_is_judged(l) || f->n_named >= most)
                return;
        l->named = true;
        l->before = l->total;
        f->n_named++;
}

/* Who and by which way: the values of the keys that all metrics of links have. */
struct label {
        const char *peer, *nic, *job, *address;
};

static struct sample begin(enum metric_id id, const struct label *l) {
        const struct metric_def *d = metric_def(id);

        return (struct sample){ .name = d->name,
                                .unit = d->unit,
                                .description = d->description,
                                .kind = d->kind,
                                .keys = { d->keys[0], d->keys[1], d->keys[2], d->keys[3] },
                                .values = { l->peer, l->nic, l->job, l->address } };
}

/* Sums of what the kernel tells, which is believed up to what a sample holds. */
static void put_total(struct sink *s, enum metric_id id, uint64_t n, const char *v0, const char *v1,
                      const char *v2) {
        put_int(s, id, (int64_t) MIN(n, (uint64_t) INT64_MAX), v0, v1, v2);
}

static void put_count(struct sink *s, enum metric_id id, uint64_t n, const struct label *l) {
        struct sample m = begin(id, l);

        m.is_int = true;
        m.i = (int64_t) MIN(n, (uint64_t) INT64_MAX);
        s->sample(s, &m);
}

static void put_real(struct sink *s, enum metric_id id, double v, const struct label *l) {
        struct sample m = begin(id, l);

        m.d = v;
        s->sample(s, &m);
}

static void put_link(const struct flows *f, const struct flow_link *l, struct sink *s) {
        char peer[FLOW_NAME_MAX], address[FLOW_NAME_MAX];
        const struct label label = { flow_peer_text(l, peer), f->nics[l->nic].name, f->runs[l->run],
                                     flow_address_text(l->family, l->peer, address) };

        put_count(s, METRIC_NET_RETRANSMITS, l->total.retransmits - l->before.retransmits, &label);
        put_count(s, METRIC_NET_TIMEOUTS, l->total.timeouts - l->before.timeouts, &label);
        put_count(s, METRIC_NET_BAD, l->bad, &label);
        if (l->srtt_usec > 0)
                put_real(s, METRIC_NET_SRTT, (double) l->srtt_usec / 1e6, &label);
        if (l->min_rtt_usec > 0)
                put_real(s, METRIC_NET_MIN_RTT, (double) l->min_rtt_usec / 1e6, &label);
        if (l->delivery_rate > 0)
                put_count(s, METRIC_NET_DELIVERY_RATE, l->delivery_rate, &label);
}

static void put_times(const struct flow_counts *c, const char *nic, const char *job, struct sink *s) {
        put_double(s, METRIC_NET_SEND_TIME, (double) c->busy_usec / 1e6, nic, job, "busy");
        put_double(s, METRIC_NET_SEND_TIME, (double) c->receiver_usec / 1e6, nic, job, "receive_window");
        put_double(s, METRIC_NET_SEND_TIME, (double) c->buffer_usec / 1e6, nic, job, "send_buffer");
}

static void put_round_trips(const struct flow_rtts *r, const char *nic, const char *job, struct sink *s) {
        const struct metric_def *d = metric_def(METRIC_NET_RTT);
        const struct sample_histogram h = { .count = r->n,
                                            .sum = r->sum,
                                            .min = NAN,
                                            .max = NAN,
                                            .bounds = flow_rtt_bounds,
                                            .counts = r->counts,
                                            .n_bounds = FLOW_RTT_BOUNDS };
        const struct sample m = { .name = d->name,
                                  .unit = d->unit,
                                  .description = d->description,
                                  .kind = d->kind,
                                  .h = &h,
                                  .keys = { d->keys[0], d->keys[1] },
                                  .values = { nic, job } };

        if (r->n > 0)
                s->sample(s, &m);
}

static void put_sum(const struct flows *f, uint8_t run, uint8_t nic, struct sink *s) {
        const struct flow_sum *u = &f->sums[run][nic];
        const char *name = f->nics[nic].name, *job = f->runs[run];
        const struct label other = { OTHER, name, job, "" };

        put_total(s, METRIC_NET_IO, u->total.sent_bytes, name, job, "transmit");
        put_total(s, METRIC_NET_IO, u->total.received_bytes, name, job, "receive");
        put_total(s, METRIC_NET_SEGMENTS, u->total.segments, name, job, NULL);
        put_total(s, METRIC_NET_SYN_RETRIES, u->total.syn_retries, name, job, NULL);
        put_total(s, METRIC_NET_DROPS, u->total.drops, name, job, NULL);
        put_int(s, METRIC_NET_CONNECTIONS, u->connections, name, job, NULL);
        put_int(s, METRIC_NET_BAD_LINKS, u->bad, name, job, NULL);
        put_int(s, METRIC_NET_RECEIVE_FULL, u->full, name, job, NULL);
        put_times(&u->total, name, job, s);
        put_round_trips(&f->rtts[run][nic], name, job, s);
        if (u->unnamed.segments == 0)
                return;
        put_count(s, METRIC_NET_RETRANSMITS, u->unnamed.retransmits, &other);
        put_count(s, METRIC_NET_TIMEOUTS, u->unnamed.timeouts, &other);
}

void flow_samples(const struct flows *f, struct sink *s) {
        for (size_t i = 0; i < f->n_links; i++)
                if (f->links[i].used && f->links[i].named)
                        put_link(f, &f->links[i], s);
        for (uint8_t run = 1; run < FLOW_RUNS_MAX; run++)
                for (uint8_t nic = 1; nic < FLOW_NICS_MAX && f->runs[run][0]; nic++)
                        if (f->nics[nic].index &&
                            (f->sums[run][nic].total.segments > 0 || f->sums[run][nic].connections > 0))
                                put_sum(f, run, nic, s);
        put_total(s, METRIC_NET_LEFT_OUT, f->left_out, NULL, NULL, NULL);
}
