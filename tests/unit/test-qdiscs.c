/* SPDX-License-Identifier: Apache-2.0 */
/* Queueing disciplines out of dumps: which of them limit, and by how much. */
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>

#include "netlink-dump.h"
#include "qdiscs.h"
#include "test.h"

static void begin_qdisc(struct dump *d, const char *kind, uint32_t handle, uint32_t parent) {
        begin(d, RTM_NEWQDISC,
              &(struct tcmsg){ .tcm_ifindex = 3, .tcm_handle = handle, .tcm_parent = parent },
              sizeof(struct tcmsg));
        attribute(d, TCA_KIND, kind, strlen(kind) + 1);
}

/* One attribute within another. */
static void nested(struct dump *d, uint16_t outer, uint16_t inner, const void *data, size_t len) {
        struct dump in = { .len = 0 };

        attribute(&in, inner, data, len);
        attribute(d, outer, in.data, in.len);
}

static void test_what_limits(void) {
        struct {
                struct tc_netem_qopt head;
                struct rtattr attribute;
                struct tc_netem_rate rate;
        } netem = { .attribute = { .rta_type = TCA_NETEM_RATE, .rta_len = 4 + sizeof(struct tc_netem_rate) },
                    .rate = { .rate = 125000000 } };
        const struct tc_tbf_qopt tbf = { .rate = { .rate = 6250000 } };
        const struct gnet_stats_queue drops = { .drops = 12 };
        const uint32_t none = UINT32_MAX, some = 1250000;
        const uint64_t cake = 12500000;
        _cleanup_qdiscs_ struct qdisc_table t = QDISC_TABLE_NULL;
        static const struct {
                bool limits;
                const char *words, *place;
        } wanted[] = { { false, "mq", "root" },
                       { true, "tbf, 50 Mbit/s, 12 packets dropped", "parent 8001:a" },
                       { true, "netem, 1 Gbit/s, 0 packets dropped", "root" },
                       { false, "fq", "root" },
                       { true, "fq, 10 Mbit/s, 0 packets dropped", "root" },
                       { true, "cake, 100 Mbit/s, 0 packets dropped", "root" },
                       { true, "htb, 0 packets dropped", "root" },
                       { true, "tbf, 0 packets dropped", "parent 9:1" } };
        struct dump d = { .len = 0 };
        char text[QDISC_WORDS_MAX], place[32];

        begin_qdisc(&d, "mq", 0x80010000, TC_H_ROOT);
        end(&d);
        begin_qdisc(&d, "tbf", 0x80020000, 0x8001000a);
        nested(&d, TCA_OPTIONS, TCA_TBF_PARMS, &tbf, sizeof(tbf));
        nested(&d, TCA_STATS2, TCA_STATS_QUEUE, &drops, sizeof(drops));
        end(&d);
        begin_qdisc(&d, "netem", 0, TC_H_ROOT);
        attribute(&d, TCA_OPTIONS, &netem, sizeof(netem));
        end(&d);
        begin_qdisc(&d, "fq", 0, TC_H_ROOT);
        nested(&d, TCA_OPTIONS, TCA_FQ_FLOW_MAX_RATE, &none, sizeof(none));
        end(&d);
        begin_qdisc(&d, "fq", 0, TC_H_ROOT);
        nested(&d, TCA_OPTIONS, TCA_FQ_FLOW_MAX_RATE, &some, sizeof(some));
        end(&d);
        begin_qdisc(&d, "cake", 0, TC_H_ROOT);
        nested(&d, TCA_OPTIONS, TCA_CAKE_BASE_RATE64, &cake, sizeof(cake));
        end(&d);
        begin_qdisc(&d, "htb", 0x90000, TC_H_ROOT);
        end(&d);
        begin_qdisc(&d, "tbf", 0, 0x90001); /* its numbers cut short */
        nested(&d, TCA_OPTIONS, TCA_TBF_PARMS, &tbf, 3);
        end(&d);
        done(&d);
        ASSERT_OK(qdiscs_parse(d.data, d.len, &t));
        ASSERT_EQ(t.n, ELEMENTSOF(wanted));
        for (size_t k = 0; k < t.n; k++) {
                ASSERT_EQ(t.qdiscs[k].limits, wanted[k].limits);
                ASSERT_STREQ(qdisc_words(&t.qdiscs[k], text), wanted[k].words);
                ASSERT_STREQ(qdisc_place(&t.qdiscs[k], place), wanted[k].place);
                ASSERT_EQ(qdisc_is_below_limit(&t, &t.qdiscs[k]), k == ELEMENTSOF(wanted) - 1);
        }
        ASSERT_STREQ(qdisc_root(&t, 3)->kind, "mq");
        ASSERT_TRUE(qdisc_root(&t, 4) == NULL);
}

static void test_garbage(void) {
        struct qdisc_table t = QDISC_TABLE_NULL;
        struct dump d = { .len = 0 };

        begin(&d, RTM_NEWQDISC, &(struct tcmsg){ .tcm_ifindex = 3 }, sizeof(struct tcmsg));
        end(&d); /* of no kind */
        done(&d);
        ASSERT_EQ(qdiscs_parse(d.data, d.len, &t), -EBADMSG);
        ASSERT_EQ(qdiscs_parse(d.data, 11, &t), -EBADMSG);
}

TEST_MAIN(test_what_limits, test_garbage)
