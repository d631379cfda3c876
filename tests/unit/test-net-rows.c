/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the kernel's programs under names: added up, kept in place, bounded; drops by reason and place. */
#include "names.h"
#include "net_rows.h"
#include "net_samples.h"
#include "test.h"

static struct net_figures figures; /* 1 MB */

static void put_peer(size_t at, uint32_t host, uint64_t timeouts) {
        struct net_peer *p = &figures.peers[at];

        figures.peer_use[at] = NET_USED;
        p->key.peer[1] = (uint64_t) host << 32 | 0xffff0000;
        p->counts.retransmits[NET_RTO] = p->counts.events[NET_RTO] = timeouts;
}

static void by_address(const struct net_peer_key *key, struct net_name *ret, void *userdata) {
        (void) userdata;
        net_address_text(key->peer, ret->peer);
}

static const struct net_row *row_of(const struct net_rows *r, const char *peer) {
        for (size_t i = 0; i < r->n; i++)
                if (streq(r->rows[i].name.peer, peer))
                        return &r->rows[i];
        return NULL;
}

static void names_are_added_up(void) {
        struct net_rows r = { 0 };

        memset(&figures, 0, sizeof(figures));
        put_peer(3, 0x0500000a, 2);
        put_peer(700, 0x0500000a, 3); /* two CPUs began it, or two runs of one name */
        put_peer(9, 0x0600000a, 1);
        figures.peer_use[10] = NET_CHANGING;
        figures.peers[10].counts.retransmits[NET_RTO] = 77;
        ASSERT_OK(net_rows_look(&r, &figures, by_address, NULL));
        ASSERT_EQ(r.n, 3);
        ASSERT_EQ(row_of(&r, "10.0.0.5")->retransmits[NET_RTO], 5);
        ASSERT_EQ(row_of(&r, "10.0.0.5")->timeouts, 5);
        ASSERT_EQ(row_of(&r, "10.0.0.6")->retransmits[NET_RTO], 1);
        ASSERT_EQ(row_of(&r, "other")->retransmits[NET_RTO], 0);
        figures.peer_use[9] = NET_FREE;
        ASSERT_OK(net_rows_look(&r, &figures, by_address, NULL));
        ASSERT_TRUE(row_of(&r, "10.0.0.6") == NULL);
        ASSERT_EQ(row_of(&r, "10.0.0.5")->retransmits[NET_RTO], 5);
        net_rows_clear(&r);
}

/* A peer that comes later, at a lower place, takes nobody's row. */
static void rows_only_rise(void) {
        struct net_rows r = { 0 };
        uint64_t sum = 0;

        memset(&figures, 0, sizeof(figures));
        for (uint32_t i = 0; i < NET_ROWS_MAX + 20; i++)
                put_peer(100 + i, 0x0000000a | i << 24, 1);
        ASSERT_OK(net_rows_look(&r, &figures, by_address, NULL));
        ASSERT_EQ(r.n, NET_ROWS_MAX + 1);
        ASSERT_EQ(row_of(&r, "other")->retransmits[NET_RTO], 20);
        put_peer(0, 0x0000010a, 5);
        ASSERT_OK(net_rows_look(&r, &figures, by_address, NULL));
        ASSERT_EQ(row_of(&r, "other")->retransmits[NET_RTO], 25);
        for (size_t i = 0; i < r.n; i++)
                sum += r.rows[i].retransmits[NET_RTO];
        ASSERT_EQ(sum, NET_ROWS_MAX + 25);
        net_rows_clear(&r);
}

static void drops_have_names(void) {
        struct net_drop d = { .reason = 6, .location = 0xffffffff81234567, .symbol = "tcp_v4_rcv+0x1f3/0xe80" };
        char reason[NET_REASON_NAME], place[NET_SYMBOL];

        memset(&figures, 0, sizeof(figures));
        (void) strcpy(figures.reasons[6], "SOCKET_RCVBUFF");
        net_drop_reason(&figures, &d, reason);
        ASSERT_STREQ(reason, "SOCKET_RCVBUFF");
        net_drop_place(&d, place);
        ASSERT_STREQ(place, "tcp_v4_rcv");
        ASSERT_TRUE(net_drop_meaning(&figures, &d) != NULL);
        d = (struct net_drop){ .reason = 0x10003, .location = 0xffffffff81234567 };
        net_drop_reason(&figures, &d, reason);
        ASSERT_STREQ(reason, "65539");
        net_drop_place(&d, place);
        ASSERT_STREQ(place, "0xffffffff81234567");
        ASSERT_TRUE(net_drop_meaning(&figures, &d) == NULL);
        memset(d.symbol, 'x', sizeof(d.symbol)); /* cut without an end */
        memset(figures.reasons[7], 'R', NET_REASON_NAME);
        d.reason = 7;
        net_drop_reason(&figures, &d, reason);
        ASSERT_EQ(strlen(reason), NET_REASON_NAME - 1);
        net_drop_place(&d, place);
        ASSERT_EQ(strlen(place), NET_SYMBOL - 1);
}

/* --- Metrics ------------------------------------------------------------------------------------------- */

struct told {
        struct sink sink;
        unsigned of[_METRIC_MAX];
        int64_t sums[_METRIC_MAX];
};

static void on_finding(struct sink *s, const struct finding *f) {
        (void) s;
        (void) f;
}

static void on_sample(struct sink *s, const struct sample *m) {
        struct told *t = (struct told *) s; /* the sink is the first member */

        for (enum metric_id id = 0; id < _METRIC_MAX; id++)
                if (streq(metric_def(id)->name, m->name)) {
                        t->of[id]++;
                        t->sums[id] += m->kind == SAMPLE_HISTOGRAM ? (int64_t) m->h->count : m->i;
                }
}

static void every_metric_is_measured(void) {
        struct told t = { .sink = { .finding = on_finding, .sample = on_sample } };
        struct net_rows r = { 0 };

        memset(&figures, 0, sizeof(figures));
        net_samples(&r, &figures, &t.sink);
        for (enum metric_id id = METRIC_KERNEL_RETRANSMITS; id < METRIC_KERNEL_NET_LOST; id++)
                ASSERT_EQ(t.of[id], 0); /* what never happened */
        put_peer(1, 0x0500000a, 3);
        figures.peers[1].counts.resets_sent = 4;
        figures.peers[1].counts.connects = figures.all.connect_histogram[5] = 6;
        figures.drops_lost = 2;
        for (size_t i = 0; i < NET_DROP_SERIES + 5; i++) {
                figures.drop_use[i] = NET_USED;
                figures.dropped[i] = (struct net_drop){ .reason = 1, .location = i + 1 };
                figures.drop_packets[0][i] = 7; /* by two CPUs */
                figures.drop_packets[NET_DROP_SHARES - 1][i] = 3;
        }
        memset(t.of, 0, sizeof(t.of));
        memset(t.sums, 0, sizeof(t.sums));
        ASSERT_OK(net_rows_look(&r, &figures, by_address, NULL));
        net_samples(&r, &figures, &t.sink);
        for (enum metric_id id = METRIC_KERNEL_RETRANSMITS; id <= METRIC_KERNEL_NET_LOST; id++)
                ASSERT_TRUE(t.of[id] > 0);
        ASSERT_EQ(t.sums[METRIC_KERNEL_RETRANSMITS], 3);
        ASSERT_EQ(t.sums[METRIC_KERNEL_RESETS], 4);
        ASSERT_EQ(t.sums[METRIC_KERNEL_CONNECTS], 6);
        ASSERT_EQ(t.sums[METRIC_KERNEL_CONNECT_TIME], 6);
        ASSERT_EQ(t.of[METRIC_KERNEL_DROPS], NET_DROP_SERIES + 1);
        ASSERT_EQ(t.sums[METRIC_KERNEL_DROPS], (NET_DROP_SERIES + 5) * 10 + 2);
        net_rows_clear(&r);
}

TEST_MAIN(every_metric_is_measured, names_are_added_up, rows_only_rise, drops_have_names)
