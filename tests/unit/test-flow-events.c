/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the kernel's programs in the table of links: added up, bounded, never stepping back; drops
 * by reason and place. */
#include "flow-case.h"
#include "probe.h"
#include "net_drops.h"

static struct net_figures figures; /* 1 MB */

static void put_peer(size_t at, uint32_t host, uint64_t timeouts) {
        struct net_peer *p = &figures.peers[at];

        figures.peer_use[at] = NET_USED;
        p->key.peer[1] = (uint64_t) host << 32 | 0xffff0000;
        p->key.local[1] = (uint64_t) 0x0100000a << 32 | 0xffff0000;
        p->counts.retransmits[NET_RTO] = p->counts.events[NET_RTO] = timeouts;
}

static void take_events(struct flow_case *c) {
        flows_take_events(&c->f, &figures, place_of, c);
}

static const struct flow_link *find(const struct flow_case *c, const char *peer) {
        uint8_t address[16] = { 0 };

        ASSERT_EQ(inet_pton(AF_INET, peer, address), 1);
        for (size_t i = 0; i < c->f.n_links; i++)
                if (c->f.links[i].used && memcmp(c->f.links[i].peer, address, 16) == 0)
                        return &c->f.links[i];
        return NULL;
}

static void entries_are_added_up(void) {
        struct flow_case c;

        case_init(&c);
        memset(&figures, 0, sizeof(figures));
        put_peer(3, 0x0500000a, 2);
        put_peer(700, 0x0500000a, 3); /* two CPUs began it, or two control groups of no run */
        put_peer(9, 0x0600000a, 1);
        figures.peer_use[10] = NET_CHANGING;
        figures.peers[10].counts.retransmits[NET_RTO] = 77;
        take_events(&c);
        ASSERT_EQ(c.f.n_links, 2);
        ASSERT_EQ(find(&c, "10.0.0.5")->events[FLOW_RTO], 5);
        ASSERT_EQ(find(&c, "10.0.0.5")->events[FLOW_EXPIRED], 5);
        ASSERT_EQ(find(&c, "10.0.0.6")->events[FLOW_RTO], 1);
        figures.peer_use[9] = NET_FREE;
        take_events(&c);
        ASSERT_TRUE(find(&c, "10.0.0.6") == NULL);
        ASSERT_EQ(find(&c, "10.0.0.5")->events[FLOW_RTO], 5);
        flows_clear(&c.f);
}

/* A link is one whatever tells of it: it outlives its last entry while sockets are looked at, and the
 * other way round. */
static void both_sources_have_one_link(void) {
        struct tcp_socket s = socket_of(1, 0, "10.0.0.5");
        struct flow_case c;

        case_init(&c);
        memset(&figures, 0, sizeof(figures));
        put_peer(3, 0x0500000a, 2);
        figures.peers[3].key.cgroup = 7; /* the run's */
        dump(&c, &s, 1);
        take_events(&c);
        ASSERT_EQ(c.f.n_links, 1);
        ASSERT_EQ(c.f.links[0].run, c.run);
        ASSERT_EQ(c.f.links[0].connections, 1);
        ASSERT_EQ(c.f.links[0].events[FLOW_RTO], 2);
        figures.peer_use[3] = NET_FREE;
        take_events(&c);
        ASSERT_TRUE(c.f.links[0].used && !c.f.links[0].has_events);
        ASSERT_EQ(c.f.links[0].events[FLOW_RTO], 0);
        figures.peer_use[3] = NET_USED;
        take_events(&c);
        flows_pause(&c.f); /* no run lives: sockets are not looked at */
        ASSERT_TRUE(c.f.links[0].used);
        ASSERT_EQ(c.f.links[0].connections, 0);
        ASSERT_EQ(c.f.links[0].events[FLOW_RTO], 2);
        figures.peer_use[3] = NET_FREE;
        take_events(&c);
        ASSERT_FALSE(c.f.links[0].used);
        flows_clear(&c.f);
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

static struct told sample(const struct flow_case *c) {
        struct told t = { .sink = { .finding = on_finding, .sample = on_sample } };

        flow_event_samples(&c->f, &t.sink);
        net_drop_samples(&figures, &t.sink);
        return t;
}

/* Those of no run: few have series of their own, and a peer that comes later, at a lower place, takes
 * nobody's. */
static void series_only_rise(void) {
        struct flow_case c;
        struct told t;

        case_init(&c);
        memset(&figures, 0, sizeof(figures));
        for (uint32_t i = 0; i < FLOW_NAMED_OTHERS + 20; i++)
                put_peer(100 + i, 0x0000000a | (i + 1) << 24, 1);
        take_events(&c);
        ASSERT_EQ(c.f.n_named_others, FLOW_NAMED_OTHERS);
        ASSERT_EQ(c.f.sums[FLOW_NOBODY][c.nics[0]].events[FLOW_RTO], 20);
        put_peer(0, 0x0000010a, 5);
        take_events(&c);
        t = sample(&c);
        ASSERT_EQ(c.f.sums[FLOW_NOBODY][c.nics[0]].events[FLOW_RTO], 25);
        ASSERT_EQ(t.of[METRIC_NET_RETRANSMITS], FLOW_NAMED_OTHERS + 1);
        ASSERT_EQ(t.sums[METRIC_NET_RETRANSMITS], FLOW_NAMED_OTHERS + 25);
        figures.peer_use[100] = NET_FREE; /* its series is another's now: of what comes from here on */
        take_events(&c);
        put_peer(101 + FLOW_NAMED_OTHERS, 0x0000000a | (uint32_t) (FLOW_NAMED_OTHERS + 2) << 24, 4);
        put_peer(0, 0x0000010a, 5);
        take_events(&c);
        t = sample(&c);
        ASSERT_EQ(t.sums[METRIC_NET_RETRANSMITS], FLOW_NAMED_OTHERS + 25 + 3 - 1);
        flows_clear(&c.f);
}

/* More strangers than the table has room for: they are counted, and runs still find a place. */
static void strangers_leave_room(void) {
        struct tcp_socket s = socket_of(1, 0, "10.0.0.5");
        struct flow_case c;
        struct told t;

        case_init(&c);
        memset(&figures, 0, sizeof(figures));
        for (uint32_t i = 0; i < NET_PEERS; i++)
                put_peer(i, 0x0000100a | (i & 0xff) << 24 | (i >> 8) << 16, 1);
        take_events(&c);
        ASSERT_EQ(c.f.n_links, FLOW_LINKS_MAX / 2);
        t = sample(&c);
        ASSERT_EQ(t.sums[METRIC_NET_RETRANSMITS], NET_PEERS);
        dump(&c, &s, 1);
        ASSERT_EQ(link_to(&c, "10.0.0.5")->connections, 1);
        flows_clear(&c.f);
}

static void drops_have_names(void) {
        struct net_drop d = { .reason = 6,
                              .location = 0xffffffff81234567,
                              .symbol = "tcp_v4_rcv+0x1f3/0xe80" };
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

static void every_metric_is_measured(void) {
        struct flow_case c;
        struct told t;

        case_init(&c);
        memset(&figures, 0, sizeof(figures));
        take_events(&c);
        t = sample(&c);
        for (enum metric_id id = METRIC_NET_RETRANSMITS; id < METRIC_KERNEL_NET_LOST; id++)
                ASSERT_EQ(t.of[id], 0); /* what never happened */
        put_peer(1, 0x0500000a, 3);
        figures.peers[1].counts.resets_sent = 4;
        figures.peers[1].counts.connects = figures.all.connect_histogram[5] = 6;
        figures.drops_lost = 2;
        figures.drops_unplaced = 9;
        for (size_t i = 0; i < NET_DROP_SERIES + 5; i++) {
                figures.drop_use[i] = NET_USED;
                figures.dropped[i] = (struct net_drop){ .reason = 1, .location = i + 1 };
                figures.drop_packets[0][i] = 7; /* by two CPUs */
                figures.drop_packets[NET_DROP_SHARES - 1][i] = 3;
        }
        take_events(&c);
        t = sample(&c);
        for (enum metric_id id = METRIC_NET_RETRANSMITS; id <= METRIC_KERNEL_NET_LOST; id++)
                ASSERT_TRUE(t.of[id] > 0);
        ASSERT_EQ(t.sums[METRIC_NET_RETRANSMITS], 3);
        ASSERT_EQ(t.sums[METRIC_NET_RESETS], 4);
        ASSERT_EQ(t.sums[METRIC_NET_CONNECTS], 6);
        ASSERT_EQ(t.sums[METRIC_KERNEL_CONNECT_TIME], 6);
        ASSERT_EQ(t.of[METRIC_KERNEL_DROPS], NET_DROP_SERIES + 1);
        ASSERT_EQ(t.sums[METRIC_KERNEL_DROPS], (NET_DROP_SERIES + 5) * 10 + 2);
        ASSERT_EQ(net_dropped(&figures), (NET_DROP_SERIES + 5) * 10 + 2);
        ASSERT_EQ(t.sums[METRIC_KERNEL_DROPS_UNPLACED], 9);
        ASSERT_EQ(t.sums[METRIC_KERNEL_NET_LOST], 2);
        flows_clear(&c.f);
}

TEST_MAIN(every_metric_is_measured, entries_are_added_up, both_sources_have_one_link, series_only_rise,
          strangers_leave_room, drops_have_names)
