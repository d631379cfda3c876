/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "netlink-dump.h"
#include "qdiscs.h"
#include "test.h"

static void begin_qdisc(struct dump *d, int index, uint32_t parent, const char *kind) {
        begin(d, RTM_NEWQDISC, &(struct tcmsg){ .tcm_ifindex = index, .tcm_parent = parent },
              sizeof(struct tcmsg));
        attribute(d, TCA_KIND, kind, strlen(kind) + 1);
}

/* Options or statistics of one attribute. */
static void nested(struct dump *d, uint16_t type, uint16_t inner, const void *data, uint16_t size) {
        uint8_t all[256] = { 0 };
        const struct nlattr head = { .nla_len = (uint16_t) (sizeof(head) + size), .nla_type = inner };

        memcpy(all, &head, sizeof(head));
        memcpy(all + sizeof(head), data, size);
        attribute(d, type, all, sizeof(head) + ((size + 3U) & ~3U));
}

static void test_what_limits(void) {
        _cleanup_qdiscs_ struct qdisc_table t = QDISC_TABLE_NULL;
        const struct tc_tbf_qopt tbf = { .rate.rate = 6250000, .buffer = 10240000 }; /* 655.36 ms */
        const struct tc_netem_qopt netem = { .latency = 156250, .loss = UINT32_MAX / 5 + 1 };
        const struct gnet_stats_queue queue = { .drops = 17 };
        const struct tc_fifo_qopt one = { .limit = 1 }, many = { .limit = 1000 };
        const uint32_t rate = 125000000, none = UINT32_MAX;
        char text[QDISC_WORDS_MAX];
        struct dump d = { .len = 0 };

        begin_qdisc(&d, 2, TC_H_ROOT, "tbf");
        nested(&d, TCA_OPTIONS, TCA_TBF_PARMS, &tbf, sizeof(tbf));
        nested(&d, TCA_STATS2, TCA_STATS_QUEUE, &queue, sizeof(queue));
        end(&d);
        begin_qdisc(&d, 3, TC_H_ROOT, "mq");
        end(&d);
        begin_qdisc(&d, 3, 1, "netem");
        attribute(&d, TCA_OPTIONS, &netem, sizeof(netem));
        end(&d);
        begin_qdisc(&d, 4, TC_H_ROOT, "fq");
        nested(&d, TCA_OPTIONS, TCA_FQ_FLOW_MAX_RATE, &rate, sizeof(rate));
        end(&d);
        begin_qdisc(&d, 5, TC_H_ROOT, "fq");
        nested(&d, TCA_OPTIONS, TCA_FQ_FLOW_MAX_RATE, &none, sizeof(none));
        end(&d);
        begin_qdisc(&d, 7, TC_H_ROOT, "pfifo");
        attribute(&d, TCA_OPTIONS, &one, sizeof(one));
        end(&d);
        begin_qdisc(&d, 8, TC_H_ROOT, "pfifo");
        attribute(&d, TCA_OPTIONS, &many, sizeof(many));
        end(&d);
        done(&d);
        ASSERT_OK(qdiscs_parse(d.data, d.len, &t));
        ASSERT_EQ(t.n, 7);
        ASSERT_STREQ(qdisc_words(qdisc_that_limits(&t, 7), text), "pfifo limit 1");
        ASSERT_TRUE(qdisc_that_limits(&t, 8) == NULL);
        ASSERT_STREQ(qdisc_words(qdisc_that_limits(&t, 2), text), "tbf rate 50 Mbit/s burst 4096000 bytes");
        ASSERT_EQ(qdisc_drops(&t, 2), 17);
        ASSERT_STREQ(qdisc_words(qdisc_that_limits(&t, 3), text), "netem delay 10 ms loss 20.0 %");
        ASSERT_STREQ(qdisc_root(&t, 3)->kind, "mq");
        ASSERT_STREQ(qdisc_words(qdisc_that_limits(&t, 4), text), "fq rate 1000 Mbit/s");
        ASSERT_TRUE(qdisc_that_limits(&t, 5) == NULL && qdisc_root(&t, 6) == NULL);
}

/* Whatever its kind; but one below another may be the kernel's own. */
static void test_short_queues(void) {
        const uint32_t one = 1, many = 1000;
        const struct tc_sfq_qopt sfq = { .limit = 2 };
        const struct tc_fifo_qopt fifo = { .limit = 1 };
        const struct {
                const char *kind;
                uint32_t parent;
                uint16_t inner; /* 0: the options are data itself */
                const void *data;
                uint16_t size;
                const char *words; /* NULL: it limits nothing */
        } cases[] = {
                { "fq", TC_H_ROOT, TCA_FQ_PLIMIT, &one, sizeof(one), "fq limit 1" },
                { "fq", 1, TCA_FQ_FLOW_PLIMIT, &one, sizeof(one), "fq limit 1" },
                { "fq", TC_H_ROOT, TCA_FQ_PLIMIT, &many, sizeof(many), NULL },
                { "fq_codel", 1, TCA_FQ_CODEL_LIMIT, &one, sizeof(one), "fq_codel limit 1" },
                { "fq_codel", TC_H_ROOT, TCA_FQ_CODEL_LIMIT, &many, sizeof(many), NULL },
                { "codel", TC_H_ROOT, TCA_CODEL_LIMIT, &one, sizeof(one), "codel limit 1" },
                { "sfq", TC_H_ROOT, 0, &sfq, sizeof(sfq), "sfq limit 2" },
                { "pfifo_head_drop", TC_H_ROOT, 0, &fifo, sizeof(fifo), "pfifo_head_drop limit 1" },
                { "pfifo", 1, 0, &fifo, sizeof(fifo), NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_qdiscs_ struct qdisc_table t = QDISC_TABLE_NULL;
                char text[QDISC_WORDS_MAX];
                struct dump d = { .len = 0 };

                begin_qdisc(&d, 2, cases[i].parent, cases[i].kind);
                if (cases[i].inner)
                        nested(&d, TCA_OPTIONS, cases[i].inner, cases[i].data, cases[i].size);
                else
                        attribute(&d, TCA_OPTIONS, cases[i].data, cases[i].size);
                end(&d);
                done(&d);
                ASSERT_OK(qdiscs_parse(d.data, d.len, &t));
                ASSERT_TRUE(qdisc_is_there(&t, 2, cases[i].kind) && !qdisc_is_there(&t, 3, cases[i].kind));
                ASSERT_EQ(qdisc_that_limits(&t, 2) != NULL, cases[i].words != NULL);
                if (cases[i].words)
                        ASSERT_STREQ(qdisc_words(qdisc_that_limits(&t, 2), text), cases[i].words);
        }
}

/* Each cut is refused or leaves something out, and none is read past its end. */
static void test_cut(void) {
        const struct tc_tbf_qopt tbf = { .rate.rate = 1 };
        struct dump d = { .len = 0 };

        begin_qdisc(&d, 2, TC_H_ROOT, "tbf");
        nested(&d, TCA_OPTIONS, TCA_TBF_PARMS, &tbf, sizeof(tbf));
        end(&d);
        done(&d);
        for (size_t len = 0; len < d.len; len++) {
                struct qdisc_table t = QDISC_TABLE_NULL;

                ASSERT_TRUE(qdiscs_parse(d.data, len, &t) < 0);
        }
        d.len = 0;
        begin_qdisc(&d, 2, TC_H_ROOT, "tbf");
        nested(&d, TCA_OPTIONS, TCA_TBF_PARMS, &tbf, 8);
        end(&d);
        done(&d);
        {
                _cleanup_qdiscs_ struct qdisc_table t = QDISC_TABLE_NULL;

                ASSERT_OK(qdiscs_parse(d.data, d.len, &t));
                ASSERT_EQ(t.qdiscs[0].rate, 0);
                ASSERT_TRUE(qdisc_that_limits(&t, 2) != NULL); /* whatever its rate is */
        }
}

TEST_MAIN(test_what_limits, test_short_queues, test_cut)
