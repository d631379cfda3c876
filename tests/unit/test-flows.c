/* SPDX-License-Identifier: Apache-2.0 */
/* What the sockets of one dump after another add up to, which links are bad, and what is said of them. */
#include <linux/tcp.h>

#include "flow-case.h"
#include "probe.h"

/* The kernel's own header has the same fields at the same places, as far as it goes. */
#define SAME(ours, theirs)                                                                                  \
        _Static_assert(offsetof(struct tcp_figures, ours) == offsetof(struct tcp_info, theirs),             \
                       "the kernel's place")
SAME(retransmits, tcpi_retransmits);
SAME(rto, tcpi_rto);
SAME(unacked, tcpi_unacked);
SAME(lost, tcpi_lost);
SAME(last_ack_recv, tcpi_last_ack_recv);
SAME(rtt, tcpi_rtt);
SAME(rcv_space, tcpi_rcv_space);
SAME(total_retrans, tcpi_total_retrans);
SAME(bytes_acked, tcpi_bytes_acked);
SAME(min_rtt, tcpi_min_rtt);
SAME(data_segs_out, tcpi_data_segs_out);
SAME(delivery_rate, tcpi_delivery_rate);
SAME(busy_time, tcpi_busy_time);
SAME(rwnd_limited, tcpi_rwnd_limited);
SAME(sndbuf_limited, tcpi_sndbuf_limited);
SAME(bytes_sent, tcpi_bytes_sent);
SAME(rcv_ooopack, tcpi_rcv_ooopack);

/* --- What counts --------------------------------------------------------------------------------------- */

static void test_first_dump_sets_marks(void) {
        struct tcp_socket s[] = { socket_of(1, 0, "10.0.0.2"), socket_of(2, 1, "10.0.1.3") };
        const struct flow_link *l;
        struct flow_case c;

        case_init(&c);
        s[0].figures = (struct tcp_figures){
                .total_retrans = 50, .data_segs_out = 1000, .total_rto = 9, .bytes_sent = 5000
        };
        dump(&c, s, 2);
        l = link_to(&c, "10.0.0.2");
        ASSERT_EQ(l->now.retransmits + l->total.retransmits + l->now.segments, 0);
        ASSERT_EQ(c.f.span, 0);
        s[0].figures.total_retrans += 5;
        s[0].figures.data_segs_out += 100;
        s[0].figures.total_rto += 2;
        s[0].figures.bytes_sent += 700;
        s[0].figures.busy_time = 40000;
        s[0].figures.rwnd_limited = 10000;
        s[0].figures.sndbuf_limited = 5000;
        s[0].drops = 3;
        dump(&c, s, 2);
        ASSERT_EQ(l->now.retransmits, 5);
        ASSERT_EQ(l->now.segments, 100);
        ASSERT_EQ(l->now.timeouts, 2);
        ASSERT_EQ(l->now.sent_bytes, 700);
        ASSERT_EQ(l->now.busy_usec, 40000);
        ASSERT_EQ(l->now.receiver_usec, 10000);
        ASSERT_EQ(l->now.buffer_usec, 5000);
        ASSERT_EQ(l->now.drops, 3);
        ASSERT_EQ(c.asked, 2); /* once for each socket */
        dump(&c, s, 2);
        ASSERT_EQ(l->now.retransmits, 0);
        ASSERT_EQ(l->total.retransmits, 5);
        flows_clear(&c.f);
}

/* A later one that is new began since the last dump; an incomplete dump ends none; one that ended is no
 * more. */
static void test_new_closed_and_incomplete(void) {
        struct tcp_socket s[] = { socket_of(1, 0, "10.0.0.2"), socket_of(2, 0, "10.0.0.2") };
        const struct flow_link *l;
        struct flow_case c;

        case_init(&c);
        dump(&c, s, 1);
        s[1].figures.total_retrans = 7;
        s[1].figures.data_segs_out = 70;
        dump(&c, s, 2);
        l = link_to(&c, "10.0.0.2");
        ASSERT_EQ(l->now.retransmits, 7);
        ASSERT_EQ(l->connections, 2);
        flows_begin(&c.f, c.f.at + 10 * USEC_PER_SEC);
        flows_end(&c.f, false);
        ASSERT_EQ(l->connections, 0);
        dump(&c, s, 2);
        ASSERT_EQ(l->now.retransmits, 0); /* it is known still */
        dump(&c, s, 1);
        dump(&c, s, 2);
        ASSERT_EQ(l->now.retransmits, 7); /* the kernel never gives a cookie twice: another one */
        flows_clear(&c.f);
}

/* Thousands that come and go: each is counted once, whoever stood where it is looked for. */
static void test_coming_and_going(void) {
        uint32_t counted[3000] = { 0 };
        const struct flow_link *l = NULL;
        struct flow_case c;

        case_init(&c);
        dump(&c, NULL, 0);
        for (unsigned round = 1; round < 20; round++) {
                uint64_t expected = 0;

                flows_begin(&c.f, c.f.at + 10 * USEC_PER_SEC);
                for (uint32_t i = 0; i < ELEMENTSOF(counted); i++) {
                        struct tcp_socket s = socket_of(i % 7 == 0 ? i + 1 : (uint64_t) i << 40, 0,
                                                        "10.0.0.2");

                        s.figures.data_segs_out = round * (i + 1);
                        if ((i * 7 + round * 13 + i / 64) % 3 == 0) {
                                counted[i] = 0; /* gone: who has this cookie later is another one */
                                continue;
                        }
                        expected += s.figures.data_segs_out - counted[i];
                        counted[i] = s.figures.data_segs_out;
                        take(&c, &s);
                }
                flows_end(&c.f, true);
                l = link_to(&c, "10.0.0.2");
                ASSERT_EQ(l->now.segments, expected);
        }
        flows_clear(&c.f);
}

/* Runs that began before the first dump and under our eyes: what theirs counted is of that span, others' is
 * not. */
static void test_since_the_beginning(void) {
        struct tcp_socket s[] = { socket_of(1, 0, "10.0.0.2"), socket_of(2, 0, "10.0.0.3") };
        struct flow_case c;

        case_init(&c);
        s[0].figures.total_retrans = s[1].figures.total_retrans = 6;
        s[1].c.cgroup = 8;
        flows_since(&c.f, 300 * USEC_PER_SEC);
        dump(&c, s, 2);
        ASSERT_EQ(c.f.span, 10 * USEC_PER_SEC);
        ASSERT_EQ(link_to(&c, "10.0.0.2")->now.retransmits, 6);
        ASSERT_EQ(link_to(&c, "10.0.0.3")->now.retransmits, 0);
        flows_clear(&c.f);
}

/* Before Linux 6.7 the kernel tells how often the same data was repeated; counters wrap. */
static void test_older_kernels_and_wrapping(void) {
        struct tcp_socket s = socket_of(1, 0, "10.0.0.2");
        const struct flow_link *l;
        struct flow_case c;

        case_init(&c);
        s.figures.total_retrans = UINT32_MAX - 1;
        s.figures.total_rto = UINT16_MAX;
        dump(&c, &s, 1);
        s.figures.total_retrans = 2;
        s.figures.total_rto = 3;
        dump(&c, &s, 1);
        l = link_to(&c, "10.0.0.2");
        ASSERT_EQ(l->now.retransmits, 4);
        ASSERT_EQ(l->now.timeouts, 4);
        ASSERT_TRUE(c.f.exact_timeouts);
        s.has_timeouts = s.has_sent = false;
        s.figures.retransmits = 5;
        s.figures.bytes_acked = 1234;
        dump(&c, &s, 1);
        ASSERT_EQ(l->now.timeouts, 5);
        ASSERT_EQ(l->now.sent_bytes, 1234);
        ASSERT_FALSE(c.f.exact_timeouts);
        s.figures.retransmits = 1; /* acknowledged since, and one more */
        dump(&c, &s, 1);
        ASSERT_EQ(l->now.timeouts, 1);
        flows_clear(&c.f);
}

/* --- What is bad --------------------------------------------------------------------------------------- */

static void assert_text(const struct flow_case *c, const char *peer, const char *wanted) {
        char text[FLOW_TEXT_MAX];

        flow_link_text(&c->f, link_to(c, peer), text);
        ASSERT_STREQ(text, wanted);
}

static void test_the_right_link_is_bad(void) {
        struct tcp_socket s[] = { socket_of(1, 0, "10.0.0.2"), socket_of(2, 1, "10.0.1.2"),
                                  socket_of(3, 1, "10.0.1.3"), socket_of(4, 0, "127.0.0.1") };
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL;
        char text[FLOW_TEXT_MAX];
        struct flow_case c;

        case_init(&c);
        dump(&c, s, 4);
        ASSERT_EQ(c.f.n_links, 2 + 1);
        for (size_t i = 0; i < 3; i++)
                s[i].figures.data_segs_out = 1000;
        s[0].figures.total_retrans = 9; /* a little loss is none's fault */
        s[0].figures.total_rto = 2;
        s[2].figures.total_retrans = 60;
        s[2].figures.total_rto = 38;
        (void) snprintf(c.f.links[2].name, FLOW_NAME_MAX, "worker 5");
        dump(&c, s, 4);
        ASSERT_FALSE(link_to(&c, "10.0.0.2")->bad || link_to(&c, "10.0.1.2")->bad);
        ASSERT_TRUE(link_to(&c, "10.0.1.3")->bad);
        assert_text(&c, "10.0.1.3",
                    "NIC eth1 to worker 5: 38 RTOs in 10 s, 6 % of segments retransmitted (60)");
        flow_summary(&c.f, text);
        ASSERT_STREQ(text, "NIC eth1 to worker 5: 38 RTOs in 10 s, 6 % of segments retransmitted (60)");
        ASSERT_OK(flow_tell(&c.f, 8, &list));
        ASSERT_EQ(list.n, 1);
        ASSERT_STREQ(list.items[0].check, "net.link");
        ASSERT_STREQ(list.items[0].subject, "10.0.1.3");
        ASSERT_STREQ(
                list.items[0].found,
                "from 10.0.1.1, NIC eth1 to worker 5: 38 RTOs in 10 s, 6 % of segments retransmitted (60)");
        dump(&c, s, 4);
        dump(&c, s, 4);
        ASSERT_TRUE(link_to(&c, "10.0.1.3")->bad); /* it may have nothing to send for a moment */
        assert_text(&c, "10.0.1.3", "NIC eth1 to worker 5: bad until 20 s ago");
        dump(&c, s, 4);
        ASSERT_FALSE(link_to(&c, "10.0.1.3")->bad);
        flow_summary(&c.f, text);
        ASSERT_STREQ(text,
                     "no bad link: 3 paths to peers, 3 connections, 0 of 0 segments retransmitted in 10 s");
        flows_clear(&c.f);
}

/* Cut off: no timer need run out within an interval for what is sent again ever later. One that does not
 * begin is bad, too. */
static void test_silence_and_beginnings(void) {
        struct tcp_socket s[] = { socket_of(1, 0, "10.0.0.2"), socket_of(2, 1, "10.0.1.2"),
                                  socket_of(3, 1, "10.0.1.3") };
        char text[FLOW_TEXT_MAX];
        struct flow_case c;

        case_init(&c);
        dump(&c, s, 2);
        s[1].c.timer = 1;
        s[1].figures.unacked = 4;
        s[1].figures.retransmits = 6;
        s[1].figures.last_ack_recv = 12400;
        s[2].c.state = TCP_STATE_SYN_SENT;
        s[2].figures.total_retrans = 3;
        s[2].figures.total_rto = 3;
        s[2].figures.retransmits = 3;
        dump(&c, s, 3);
        assert_text(&c, "10.0.1.2",
                    "NIC eth1 to 10.0.1.2: nothing acknowledged for 12 s (1 of 1 connection)");
        assert_text(&c, "10.0.1.3", "NIC eth1 to 10.0.1.3: 3 RTOs in 10 s, SYN retransmitted 3 times");
        ASSERT_EQ(link_to(&c, "10.0.1.3")->now.syn_retries, 3);
        flow_summary(&c.f, text);
        ASSERT_STREQ(text, "NIC eth1 to all 2 peers: 3 RTOs in 10 s, SYN retransmitted 3 times: rather this "
                           "NIC or its port than the peers");
        flows_clear(&c.f);
}

/* What belongs to no run is shown; it is judged only where the peer is a worker. */
static void test_whose(void) {
        struct tcp_socket s = socket_of(1, 0, "10.0.0.2");
        struct flow_case c;

        case_init(&c);
        s.c.cgroup = 8;
        dump(&c, &s, 1);
        s.figures.total_rto = 30;
        dump(&c, &s, 1);
        ASSERT_FALSE(link_to(&c, "10.0.0.2")->bad);
        c.f.links[0].is_worker = true;
        s.figures.total_rto = 60;
        dump(&c, &s, 1);
        ASSERT_TRUE(link_to(&c, "10.0.0.2")->bad);
        flows_clear(&c.f);
}

static void test_receive_buffers(void) {
        struct tcp_socket s[] = { socket_of(1, 0, "10.0.0.2"), socket_of(2, 1, "10.0.1.2") };
        char text[FLOW_TEXT_MAX];
        struct flow_case c;

        case_init(&c);
        dump(&c, s, 2);
        ASSERT_EQ(flow_receive_text(&c.f, text), VERDICT_OK);
        ASSERT_STREQ(text, "none of 2 connections has the largest receive buffer (tcp_rmem: 1000000 bytes): "
                           "it suffices");
        s[1].receive_buffer = 1000000;
        s[1].figures.rcv_space = 14000;
        dump(&c, s, 2);
        ASSERT_EQ(flow_receive_text(&c.f, text), VERDICT_OK);
        s[1].figures.rcv_space = 230000;
        dump(&c, s, 2);
        ASSERT_EQ(flow_receive_text(&c.f, text), VERDICT_WARN);
        ASSERT_STREQ(text, "1 of 2 connections are at the largest receive buffer (tcp_rmem: 1000000 bytes) "
                           "and take 230000 bytes a "
                           "round trip: try sysctl net.ipv4.tcp_rmem with 2000000");
        flows_clear(&c.f);
}

/* --- Bounds -------------------------------------------------------------------------------------------- */

static void test_bounds(void) {
        struct flow_case c;

        case_init(&c);
        for (unsigned round = 0; round < 2; round++) {
                flows_begin(&c.f, (round + 1) * 10 * USEC_PER_SEC);
                for (uint32_t i = 0; i < FLOW_SOCKETS_MAX + 10; i++) {
                        struct tcp_socket s = socket_of(i + 1, 0, "10.0.0.2");
                        uint32_t peer = htonl(0x0a100000 + i % (FLOW_LINKS_MAX + 5));

                        memcpy(s.c.peer, &peer, sizeof(peer));
                        s.figures.total_retrans = round * 2;
                        (void) take_any(&c, &s);
                }
                flows_end(&c.f, true);
        }
        ASSERT_EQ(c.f.n_links, FLOW_LINKS_MAX);
        ASSERT_EQ(c.f.n_named, FLOW_NAMED_MAX - FLOW_NAMED_BAD);
        ASSERT_EQ(c.f.sockets, FLOW_SOCKETS_MAX + 10);
        ASSERT_TRUE(c.f.left_out >= 20);
        ASSERT_EQ(c.f.sums[c.run][c.nics[0]].total.retransmits, 2 * c.f.sums[c.run][c.nics[0]].connections);
        for (unsigned i = 0; i < 40; i++)
                dump(&c, NULL, 0);
        for (size_t i = 0; i < c.f.n_links; i++)
                ASSERT_FALSE(c.f.links[i].used); /* nobody came for five minutes */
        ASSERT_EQ(c.f.n_named, 0);
        flows_clear(&c.f);
}

static void test_places(void) {
        struct tcp_socket s = socket_of(1, 0, "10.0.0.2");
        char name[16];
        struct flow_case c;

        case_init(&c);
        dump(&c, &s, 1);
        ASSERT_EQ(flows_run(&c.f, RUN), c.run);
        ASSERT_EQ(flows_nic(&c.f, 2, "renamed0"), c.nics[0]);
        for (int i = 0; i < 40; i++) {
                (void) snprintf(name, sizeof(name), "x%d", i);
                (void) flows_run(&c.f, name);
                (void) flows_nic(&c.f, 100 + i, name);
        }
        ASSERT_EQ(flows_run(&c.f, "another"), FLOW_NOBODY);
        ASSERT_EQ(flows_nic(&c.f, 999, "another"), FLOW_NOBODY);
        flows_forget_run(&c.f, c.run);
        ASSERT_EQ(flows_run(&c.f, "another"), c.run);
        dump(&c, &s, 1);
        ASSERT_EQ(c.f.sums[c.run][c.nics[0]].connections, 0); /* it was the other run's */
        flows_clear(&c.f);
}

/* --- Samples ------------------------------------------------------------------------------------------- */

struct told {
        struct sink sink;
        int64_t named, other, n, histograms;
        bool seen[_METRIC_MAX];
};

static void on_finding(struct sink *s, const struct finding *f) {
        (void) s, (void) f;
}

static void on_sample(struct sink *s, const struct sample *m) {
        struct told *t = (struct told *) s; /* the sink is the first member */

        t->n++;
        for (enum metric_id id = 0; id < _METRIC_MAX; id++)
                t->seen[id] |= streq(metric_def(id)->name, m->name);
        t->histograms += m->kind == SAMPLE_HISTOGRAM;
        if (streq(m->name, "tpu.net.retransmits"))
                *(streq(m->values[0], "other") ? &t->other : &t->named) += m->i;
}

/* However many peers there are, what is told is bounded, adds up, and never steps back. */
static void test_samples(void) {
        struct tcp_socket s[100];
        struct told before = { 0 };
        struct flow_case c;

        case_init(&c);
        for (unsigned i = 0; i < ELEMENTSOF(s); i++) {
                char peer[16];

                (void) snprintf(peer, sizeof(peer), "10.9.0.%u", i + 1);
                s[i] = socket_of(i + 1, 0, peer);
        }
        for (unsigned round = 0; round < 5; round++) {
                struct told t = { .sink = { on_finding, on_sample } };
                int64_t all = 0;

                for (unsigned i = 0; i < ELEMENTSOF(s); i++) {
                        s[i].figures.data_segs_out += 100;
                        s[i].figures.rtt = 90;
                        s[i].figures.min_rtt = 40;
                        s[i].figures.delivery_rate = 1000;
                        s[i].figures.total_retrans += i > 60 && round > 2 ? 40 : 1; /* some turn bad later */
                        all += s[i].figures.total_retrans - 1;
                }
                dump(&c, s, ELEMENTSOF(s));
                flow_samples(&c.f, &t.sink);
                ASSERT_EQ(t.named + t.other, all);
                ASSERT_TRUE(t.named >= before.named && t.other >= before.other);
                ASSERT_TRUE(t.n <= FLOW_NAMED_MAX * 7 + 20);
                before = t;
        }
        ASSERT_EQ(c.f.n_named, FLOW_NAMED_MAX);
        ASSERT_EQ(before.histograms, 1);
        for (enum metric_id id = METRIC_NET_TIMEOUTS; id <= METRIC_NET_LEFT_OUT; id++)
                if (!before.seen[id])
                        test_fail(__FILE__, __LINE__, "%s is never measured", metric_def(id)->name);
        flows_clear(&c.f);
}

TEST_MAIN(test_first_dump_sets_marks, test_new_closed_and_incomplete, test_coming_and_going,
          test_since_the_beginning,
          test_older_kernels_and_wrapping, test_the_right_link_is_bad, test_silence_and_beginnings,
          test_whose, test_receive_buffers, test_bounds, test_places, test_samples)
