/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "netlink-dump.h"
#include "qdiscs.h"
#include "test.h"

/* handle 0: the kernel's own. */
static void begin_set_qdisc(struct dump *d, int index, uint32_t handle, uint32_t parent, const char *kind) {
        begin(d, RTM_NEWQDISC,
              &(struct tcmsg){ .tcm_ifindex = index, .tcm_handle = handle, .tcm_parent = parent },
              sizeof(struct tcmsg));
        attribute(d, TCA_KIND, kind, strlen(kind) + 1);
}

static void begin_qdisc(struct dump *d, int index, uint32_t parent, const char *kind) {
        begin_set_qdisc(d, index, 0, parent, kind);
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
        const uint32_t none = 0, one = 1, many = 1000;
        const struct tc_sfq_qopt sfq = { .limit = 2 };
        const struct tc_fifo_qopt fifo = { .limit = 1 };
        const struct {
                const char *kind;
                uint32_t handle, parent;
                uint16_t inner; /* 0: the options are data itself */
                const void *data;
                uint16_t size;
                const char *words; /* NULL: it limits nothing */
        } cases[] = {
                { "fq", 0, TC_H_ROOT, TCA_FQ_PLIMIT, &one, sizeof(one), "fq limit 1" },
                { "fq", 0, 1, TCA_FQ_FLOW_PLIMIT, &one, sizeof(one), "fq limit 1" },
                { "fq", 0, TC_H_ROOT, TCA_FQ_PLIMIT, &many, sizeof(many), NULL },
                { "fq_codel", 0, 1, TCA_FQ_CODEL_LIMIT, &one, sizeof(one), "fq_codel limit 1" },
                { "fq_codel", 0, TC_H_ROOT, TCA_FQ_CODEL_LIMIT, &many, sizeof(many), NULL },
                { "codel", 0, TC_H_ROOT, TCA_CODEL_LIMIT, &one, sizeof(one), "codel limit 1" },
                { "sfq", 0, TC_H_ROOT, 0, &sfq, sizeof(sfq), "sfq limit 2" },
                { "pfifo_head_drop", 0, TC_H_ROOT, 0, &fifo, sizeof(fifo), "pfifo_head_drop limit 1" },
                { "pfifo", 0, 1, 0, &fifo, sizeof(fifo), NULL },
                { "pfifo", 0x80010000, 0x10001, 0, &fifo, sizeof(fifo), "pfifo limit 1" },
                { "fq_codel", 0, TC_H_ROOT, TCA_FQ_CODEL_LIMIT, &none, sizeof(none), "fq_codel limit 0" },
                { "fq_pie", 0, TC_H_ROOT, TCA_FQ_PIE_LIMIT, &one, sizeof(one), "fq_pie limit 1" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_qdiscs_ struct qdisc_table t = QDISC_TABLE_NULL;
                char text[QDISC_WORDS_MAX];
                struct dump d = { .len = 0 };

                begin_set_qdisc(&d, 2, cases[i].handle, cases[i].parent, cases[i].kind);
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

/* What somebody takes away below an mq is told of by nothing but that it is missing. */
static void test_bare_queues(void) {
        static const struct {
                const char *root;
                uint32_t handle;
                unsigned queues, leaves[4], bare;
        } cases[] = {
                { "mq", 0x10000, 0, { 1, 2 }, 0 },
                { "mq", 0x10000, 2, { 2, 1 }, 0 },
                { "mq", 0x10000, 0, { 2 }, 1 },
                { "mq", 0x10000, 2, { 1 }, 1 },
                { "mq", 0x10000, 0, { 0 }, 1 }, /* each NIC has at least one */
                { "mq", 0x10000, 4, { 1, 3 }, 2 },
                { "mq", 0x10000, 2, { 1, 2, 4 }, 0 }, /* the fourth is of a time when there were four */
                { "mq", 0x10000, 2, { 1, 1, 2 }, 0 },
                { "mq", 0, 2, { 1 }, 0 }, /* the kernel's own: of old ones the dump is not whole */
                { "mqprio", 0x10000, 2, { 2, 0xffe0 }, 1 },
                { "prio", 0x10000, 2, { 1 }, 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_qdiscs_ struct qdisc_table t = QDISC_TABLE_NULL;
                struct dump d = { .len = 0 };

                begin_set_qdisc(&d, 2, cases[i].handle, TC_H_ROOT, cases[i].root);
                end(&d);
                for (size_t k = 0; k < ELEMENTSOF(cases[i].leaves) && cases[i].leaves[k] > 0; k++) {
                        begin_qdisc(&d, 2, cases[i].handle | cases[i].leaves[k], "fq_codel");
                        end(&d);
                }
                begin_set_qdisc(&d, 3, 0x10000, TC_H_ROOT, "mq"); /* another NIC's */
                end(&d);
                done(&d);
                ASSERT_OK(qdiscs_parse(d.data, d.len, &t));
                ASSERT_EQ(qdisc_queues_bare(&t, 2, cases[i].queues), cases[i].bare);
                ASSERT_EQ(qdisc_queues_bare(&t, 4, cases[i].queues), 0);
        }
}

TEST_MAIN(test_what_limits, test_short_queues, test_bare_queues, test_cut)
