/* SPDX-License-Identifier: Apache-2.0 */
/* Which TCP connections count as such whose peer no longer answers. */
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>

#include "netlink-dump.h"
#include "reach.h"
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
        /* idle; a stopped reader, whose kernel answers; one lost packet; not long enough; not sent again yet */
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

TEST_MAIN(test_reach_pairs, test_which_count, test_other_kernels, test_cut_and_full)
