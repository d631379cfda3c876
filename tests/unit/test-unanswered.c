/* SPDX-License-Identifier: Apache-2.0 */
/* Which TCP connections count as such whose peer no longer answers. */
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>

#include "netlink-dump.h"
#include "tcp_connections.h"
#include "unanswered.h"

struct told {
        int family;
        const char *local, *peer;
        uint8_t timer, retransmits;
        uint32_t unacked, silence_ms;
};

static void connection(struct dump *d, struct told c) {
        struct inet_diag_msg m = { .idiag_family = (uint8_t) c.family,
                                   .idiag_state = 1,
                                   .idiag_timer = c.timer };
        struct tcp_info info = { .tcpi_retransmits = c.retransmits,
                                 .tcpi_unacked = c.unacked,
                                 .tcpi_last_ack_recv = c.silence_ms };

        ASSERT_EQ(inet_pton(c.family, c.local, m.id.idiag_src), 1);
        ASSERT_EQ(inet_pton(c.family, c.peer, m.id.idiag_dst), 1);
        begin(d, SOCK_DIAG_BY_FAMILY, &m, sizeof(m));
        attribute(d, INET_DIAG_INFO, &info, sizeof(info));
        end(d);
}

static void test_which_count(void) {
        _cleanup_unanswered_ struct unanswered_table t = UNANSWERED_TABLE_NULL;
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL;
        struct dump d = { .len = 0 };

        connection(&d, (struct told){ AF_INET, "10.10.1.12", "10.10.1.13", 1, 5, 3, 12000 });
        connection(&d, (struct told){ AF_INET, "10.10.1.12", "10.10.1.13", 1, 4, 1, 9000 });
        connection(&d, (struct told){ AF_INET6, "fd00::1", "fd00::2", 1, 3, 1, 2000 });
        /* idle; a stopped reader, whose kernel answers; one lost packet; not long enough; not sent again
         * yet */
        connection(&d, (struct told){ AF_INET, "10.10.1.12", "10.10.1.14", 0, 0, 0, 90000 });
        connection(&d, (struct told){ AF_INET, "10.10.1.12", "10.10.1.15", 4, 0, 0, 300 });
        connection(&d, (struct told){ AF_INET, "10.10.1.12", "10.10.1.16", 1, 1, 2, 300 });
        connection(&d, (struct told){ AF_INET, "10.10.1.12", "10.10.1.17", 1, 3, 2, 1999 });
        connection(&d, (struct told){ AF_INET, "10.10.1.12", "10.10.1.18", 1, 0, 2, 5000 });
        done(&d);
        ASSERT_OK(unanswered_parse(d.data, d.len, &t));
        ASSERT_EQ(t.n, 2);
        ASSERT_EQ(t.answered, 5);
        ASSERT_EQ(t.pairs[0].connections, 2);
        ASSERT_EQ(t.pairs[0].repeats, 5);
        ASSERT_EQ(t.pairs[0].silence, 12 * USEC_PER_SEC);
        ASSERT_OK(unanswered_tell(&t, &list));
        ASSERT_EQ(list.n, 2);
        ASSERT_STREQ(list.items[0].subject, "10.10.1.13");
        ASSERT_STREQ(list.items[0].found, "from 10.10.1.12, nothing for 12 s although data was sent again 5 "
                                          "times (2 connections)");
        ASSERT_STREQ(list.items[1].subject, "fd00::2");
        ASSERT_TRUE(startswith(list.items[1].found, "from fd00::1, "));
}

/* Not only data of a connection that is open. */
static void test_other_states(void) {
        static const struct {
                struct inet_diag_msg m;
                struct tcp_info info;
                bool counts;
        } cases[] = {
                { { .idiag_state = TCP_SYN_SENT, .idiag_timer = 1 }, { .tcpi_retransmits = 2 }, true },
                { { .idiag_state = TCP_SYN_SENT, .idiag_timer = 1 }, { .tcpi_retransmits = 1 }, false },
                { { .idiag_state = TCP_FIN_WAIT1, .idiag_timer = 1 },
                  { .tcpi_retransmits = 4, .tcpi_unacked = 1, .tcpi_last_ack_recv = 9000 }, true },
                /* sent again before the last answer */
                { { .idiag_state = TCP_ESTABLISHED, .idiag_timer = 1 },
                  { .tcpi_backoff = 4, .tcpi_unacked = 1, .tcpi_last_ack_recv = 9000 }, true },
                { { .idiag_state = TCP_ESTABLISHED, .idiag_timer = 2 }, /* idle, and probed in vain */
                  { .tcpi_probes = 3, .tcpi_last_ack_recv = 30000 }, true },
                { { .idiag_state = TCP_ESTABLISHED, .idiag_timer = 2 },
                  { .tcpi_probes = 0, .tcpi_last_ack_recv = 30000 }, false },
                /* a closed window, whose probes are lost */
                { { .idiag_state = TCP_ESTABLISHED, .idiag_timer = 4 },
                  { .tcpi_probes = 5, .tcpi_last_ack_recv = 30000 }, true },
                { { .idiag_state = TCP_ESTABLISHED, .idiag_timer = 4 }, /* and answered */
                  { .tcpi_probes = 1, .tcpi_last_ack_recv = 300 }, false },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_unanswered_ struct unanswered_table t = UNANSWERED_TABLE_NULL;
                struct inet_diag_msg m = cases[i].m;
                struct dump d = { .len = 0 };

                m.idiag_family = AF_INET;
                begin(&d, SOCK_DIAG_BY_FAMILY, &m, sizeof(m));
                attribute(&d, INET_DIAG_INFO, &cases[i].info, sizeof(cases[i].info));
                end(&d);
                done(&d);
                ASSERT_OK(unanswered_parse(d.data, d.len, &t));
                if ((t.n == 1) != cases[i].counts)
                        fprintf(stderr, "case %zu\n", i);
                ASSERT_EQ(t.n, cases[i].counts);
        }
}

/* An older kernel tells less, a newer one more than we know; one that tells nothing is no evidence. */
static void test_other_kernels(void) {
        _cleanup_unanswered_ struct unanswered_table t = UNANSWERED_TABLE_NULL;
        unsigned char info[sizeof(struct tcp_info) + 64] = { 0 };
        struct inet_diag_msg m = { .idiag_family = AF_INET, .idiag_timer = 1 };
        struct dump d = { .len = 0 };

        for (size_t size = 0; size <= sizeof(info); size += sizeof(info)) {
                begin(&d, SOCK_DIAG_BY_FAMILY, &m, sizeof(m));
                if (size > 0)
                        attribute(&d, INET_DIAG_INFO, info, size);
                end(&d);
        }
        begin(&d, SOCK_DIAG_BY_FAMILY, &m, sizeof(m));
        attribute(&d, INET_DIAG_INFO, info, 8);
        end(&d);
        done(&d);
        ASSERT_OK(unanswered_parse(d.data, d.len, &t));
        ASSERT_EQ(t.n, 0);
        ASSERT_EQ(t.answered, 2);
}

/* Every shorter dump is refused, and more pairs than are kept are left out. */
static void test_cut_and_full(void) {
        static unsigned char many[200000];
        _cleanup_unanswered_ struct unanswered_table t = UNANSWERED_TABLE_NULL, none = UNANSWERED_TABLE_NULL;
        struct dump d = { .len = 0 }, end_of_all = { .len = 0 };
        size_t len = 0;

        connection(&d, (struct told){ AF_INET, "10.0.0.1", "10.0.0.2", 1, 5, 3, 12000 });
        done(&d);
        for (size_t i = 0; i < d.len; i++)
                ASSERT_TRUE(unanswered_parse(d.data, i, &none) < 0);
        for (unsigned i = 0; i < UNANSWERED_MAX + 50; i++) {
                struct dump one = { .len = 0 };
                char peer[32];

                (void) snprintf(peer, sizeof(peer), "10.1.%u.%u", i / 256, i % 256);
                connection(&one, (struct told){ AF_INET, "10.0.0.1", peer, 1, 5, 3, 12000 });
                memcpy(many + len, one.data, one.len);
                len += one.len;
        }
        done(&end_of_all);
        memcpy(many + len, end_of_all.data, end_of_all.len);
        ASSERT_OK(unanswered_parse(many, len + end_of_all.len, &t));
        ASSERT_EQ(t.n, UNANSWERED_MAX);
        ASSERT_EQ(t.answered, 50);
}

/* Pairs once each; what is on this machine is no way out of it. */
static void test_reach_pairs(void) {
        struct reach_pair pairs[REACH_MAX];
        struct dump d = { .len = 0 };
        size_t n = 0;

        for (int i = 0; i < 2; i++) {
                connection(&d, (struct told){ AF_INET, "10.10.1.12", "10.10.1.13", 0, 0, 0, 0 });
                connection(&d, (struct told){ AF_INET, "127.0.0.1", "127.0.0.1", 0, 0, 0, 0 });
                connection(&d, (struct told){ AF_INET, "10.10.1.12", "10.10.1.12", 0, 0, 0, 0 });
        }
        connection(&d, (struct told){ AF_INET6, "fd00::1", "fd00::2", 0, 0, 0, 0 });
        connection(&d, (struct told){ AF_INET6, "::1", "::1", 0, 0, 0, 0 });
        done(&d);
        ASSERT_OK(reach_parse(d.data, d.len, pairs, &n));
        ASSERT_EQ(n, 2);
        ASSERT_EQ(pairs[0].peer[3], 13);
        ASSERT_EQ(pairs[1].peer[15], 2);
        for (size_t i = 0; i < d.len; i++)
                ASSERT_TRUE(reach_parse(d.data, i, pairs, &n) < 0);
}

static int keep(const struct tcp_connection *c, void *userdata) {
        *(struct tcp_connection *) userdata = *c;
        return 0;
}

/* Each field where it belongs, ports as people write them; what an older kernel does not tell is 0. */
static void test_one_connection(void) {
        struct inet_diag_msg m = { .idiag_family = AF_INET, .idiag_state = 1, .idiag_timer = 4,
                                   .id = { .idiag_sport = htons(8471), .idiag_dport = htons(50000),
                                           .idiag_if = 3,
                                           .idiag_cookie = { 7, 1 }, .idiag_src = { htonl(0x0a0a010c) } },
                                   .idiag_rqueue = 11, .idiag_wqueue = 12 };
        uint64_t cgroup = 4242;
        struct tcp_connection c;

        for (int told = 0; told < 2; told++) {
                struct dump d = { .len = 0 };

                begin(&d, SOCK_DIAG_BY_FAMILY, &m, sizeof(m));
                if (told)
                        attribute(&d, INET_DIAG_CGROUP_ID, &cgroup, sizeof(cgroup));
                end(&d);
                done(&d);
                ASSERT_OK(tcp_connections_parse(d.data, d.len, keep, &c));
                ASSERT_EQ(c.cgroup, told ? 4242 : 0);
                ASSERT_TRUE(!c.info);
        }
        ASSERT_EQ(c.family, AF_INET);
        ASSERT_EQ(c.local[0], 10);
        ASSERT_EQ(c.local[3], 12);
        ASSERT_EQ(c.local_port, 8471);
        ASSERT_EQ(c.peer_port, 50000);
        ASSERT_EQ(c.interface, 3);
        ASSERT_EQ(c.timer, 4);
        ASSERT_EQ(c.unread, 11);
        ASSERT_EQ(c.unsent, 12);
        ASSERT_EQ(c.cookie, (1ull << 32) + 7);
}

struct wanted {
        uint16_t port;
        unsigned seen, fresh;
};

static int find_port(const struct tcp_connection *c, void *userdata) {
        struct wanted *w = userdata;
        struct tcp_info info;

        if (c->local_port != w->port)
                return 0;
        w->seen++;
        tcp_connection_info(c, &info, sizeof(info));
        w->fresh += info.tcpi_state == 1 && info.tcpi_snd_mss > 0;
        return 0;
}

/* The kernel of this machine: a connection of our own is among them, and is read while it comes. */
static void test_this_kernel(void) {
        const struct tcp_query query = { .states = TCP_ESTABLISHED_BIT, .with_info = true,
                                         .max = 64 * 1024 * 1024 };
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        _cleanup_close_ int server = socket(AF_INET, SOCK_STREAM, 0),
                client = socket(AF_INET, SOCK_STREAM, 0);
        _cleanup_host_ struct host h = HOST_NULL;
        struct wanted w = { 0 };
        socklen_t size = sizeof(a);
        int r;

        ASSERT_OK(bind(server, (struct sockaddr *) &a, sizeof(a)));
        ASSERT_OK(listen(server, 1));
        ASSERT_OK(getsockname(server, (struct sockaddr *) &a, &size));
        ASSERT_OK(connect(client, (struct sockaddr *) &a, sizeof(a)));
        w.port = ntohs(a.sin_port);
        ASSERT_OK(host_open("/", &h));
        r = tcp_connections_read(&h, &query, find_port, &w);
        if (r == -ENOENT || r == -EPROTONOSUPPORT)
                return; /* a kernel without it */
        ASSERT_OK(r);
        ASSERT_EQ(w.seen, 1);
        ASSERT_EQ(w.fresh, 1);
        ASSERT_EQ(tcp_connections_read(&h, &(struct tcp_query){ .states = TCP_ESTABLISHED_BIT, .max = 1 },
                                       find_port, &w), -E2BIG);
}

TEST_MAIN(test_one_connection, test_this_kernel, test_reach_pairs, test_which_count, test_other_states,
          test_other_kernels, test_cut_and_full)
