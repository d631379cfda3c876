/* SPDX-License-Identifier: Apache-2.0 */
#include "qdiscs.h"

#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "netlink.h"
#include "texts.h"

#define TICK_NS 64 /* a tick of the scheduler (Linux, include/net/pkt_sched.h, PSCHED_SHIFT) */

/* --- Parsing ------------------------------------------------------------------------------------------- */

static const struct nla_policy qdisc_policy[TCA_MAX + 1] = {
        [TCA_KIND] = { .type = NLA_STRING, .minlen = 1 },
        [TCA_STATS2] = { .type = NLA_NESTED },
};

static uint64_t rate_of(struct nlattr *const *a, int rate64, uint32_t rate) {
        return a[rate64] && nla_len(a[rate64]) == sizeof(uint64_t) ? nla_get_u64(a[rate64]) : rate;
}

static void take_tbf(struct nlattr *options, struct qdisc *q) {
        struct nlattr *a[TCA_TBF_MAX + 1];
        struct tc_tbf_qopt parms;

        if (nla_parse_nested(a, TCA_TBF_MAX, options, NULL) < 0 || !a[TCA_TBF_PARMS] ||
            nla_len(a[TCA_TBF_PARMS]) < (int) sizeof(parms))
                return;
        memcpy(&parms, nla_data(a[TCA_TBF_PARMS]), sizeof(parms));
        q->rate = rate_of(a, TCA_TBF_RATE64, parms.rate.rate);
        /* The kernel gives it as the time that it takes. */
        q->burst = (uint64_t) ((double) q->rate * (double) parms.buffer * TICK_NS / 1e9 + 0.5);
}

static void take_netem(struct nlattr *options, struct qdisc *q) {
        struct tc_netem_qopt parms;

        if (nla_len(options) < (int) sizeof(parms))
                return;
        memcpy(&parms, nla_data(options), sizeof(parms));
        q->delay_usec = (uint64_t) parms.latency * TICK_NS / 1000;
        q->loss_permille = (uint32_t) ((uint64_t) parms.loss * 1000 / UINT32_MAX);
}

static uint32_t number_of(const struct nlattr *a) {
        return a && nla_len(a) == sizeof(uint32_t) ? nla_get_u32(a) : 0;
}

/* The least counts of those that the kernel reports. */
static void take_limit(const struct nlattr *a, struct qdisc *q) {
        if (!a || nla_len(a) != sizeof(uint32_t))
                return;
        q->limit = q->limited ? MIN(q->limit, nla_get_u32(a)) : nla_get_u32(a);
        q->limited = true;
}

static void take_fq(struct nlattr *options, struct qdisc *q) {
        struct nlattr *a[TCA_FQ_MAX + 1];
        uint32_t most;

        if (nla_parse_nested(a, TCA_FQ_MAX, options, NULL) < 0)
                return;
        most = number_of(a[TCA_FQ_FLOW_MAX_RATE]);
        q->rate = most == UINT32_MAX ? 0 : most;
        take_limit(a[TCA_FQ_PLIMIT], q);
        take_limit(a[TCA_FQ_FLOW_PLIMIT], q); /* of one connection */
}

/* These three have a limit in packets, and nothing else that holds anything back. */
static void take_fq_codel(struct nlattr *options, struct qdisc *q) {
        struct nlattr *a[TCA_FQ_CODEL_MAX + 1];

        if (nla_parse_nested(a, TCA_FQ_CODEL_MAX, options, NULL) == 0)
                take_limit(a[TCA_FQ_CODEL_LIMIT], q);
}

static void take_codel(struct nlattr *options, struct qdisc *q) {
        struct nlattr *a[TCA_CODEL_MAX + 1];

        if (nla_parse_nested(a, TCA_CODEL_MAX, options, NULL) == 0)
                take_limit(a[TCA_CODEL_LIMIT], q);
}

static void take_fq_pie(struct nlattr *options, struct qdisc *q) {
        struct nlattr *a[TCA_FQ_PIE_MAX + 1];

        if (nla_parse_nested(a, TCA_FQ_PIE_MAX, options, NULL) == 0)
                take_limit(a[TCA_FQ_PIE_LIMIT], q);
}

static void take_sfq(struct nlattr *options, struct qdisc *q) {
        struct tc_sfq_qopt parms;

        if (nla_len(options) < (int) sizeof(parms))
                return;
        memcpy(&parms, nla_data(options), sizeof(parms));
        q->limit = parms.limit;
        q->limited = true;
}

static void take_cake(struct nlattr *options, struct qdisc *q) {
        struct nlattr *a[TCA_CAKE_MAX + 1];

        if (nla_parse_nested(a, TCA_CAKE_MAX, options, NULL) == 0)
                q->rate = rate_of(a, TCA_CAKE_BASE_RATE64, 0);
}

static void take_fifo(struct nlattr *options, struct qdisc *q) {
        struct tc_fifo_qopt parms;

        if (nla_len(options) < (int) sizeof(parms))
                return;
        memcpy(&parms, nla_data(options), sizeof(parms));
        q->limit = parms.limit;
        q->limited = true;
}

static void take_drops(struct nlattr *stats, struct qdisc *q) {
        struct nlattr *a[TCA_STATS_MAX + 1];
        struct gnet_stats_queue queue;

        if (nla_parse_nested(a, TCA_STATS_MAX, stats, NULL) < 0 || !a[TCA_STATS_QUEUE] ||
            nla_len(a[TCA_STATS_QUEUE]) < (int) sizeof(queue))
                return;
        memcpy(&queue, nla_data(a[TCA_STATS_QUEUE]), sizeof(queue));
        q->drops = queue.drops;
}

static int parse_qdisc(struct nlmsghdr *h, void *ret_item) {
        static const struct {
                const char *kind;
                void (*take)(struct nlattr *options, struct qdisc *q);
        } kinds[] = {
                { "tbf", take_tbf },
                { "netem", take_netem },
                { "fq", take_fq },
                { "cake", take_cake },
                { "fq_codel", take_fq_codel },
                { "codel", take_codel },
                { "fq_pie", take_fq_pie },
                { "sfq", take_sfq },
                { "pfifo", take_fifo },
                { "pfifo_head_drop", take_fifo },
                { "bfifo", take_fifo },
        };
        struct nlattr *a[TCA_MAX + 1];
        struct qdisc q = { 0 };
        const struct tcmsg *m;

        if (!nlmsg_valid_hdr(h, sizeof(*m)) || nlmsg_parse(h, sizeof(*m), a, TCA_MAX, qdisc_policy) < 0)
                return -EBADMSG;
        m = nlmsg_data(h);
        if (m->tcm_ifindex <= 0 || !a[TCA_KIND])
                return 0;
        q.index = m->tcm_ifindex;
        q.root = m->tcm_parent == TC_H_ROOT;
        q.handle = m->tcm_handle;
        q.parent = m->tcm_parent;
        (void) nla_strlcpy(q.kind, a[TCA_KIND], sizeof(q.kind)); /* a kind too long is none we know: cut */
        for (size_t i = 0; a[TCA_OPTIONS] && i < ELEMENTSOF(kinds); i++)
                if (streq(q.kind, kinds[i].kind))
                        kinds[i].take(a[TCA_OPTIONS], &q);
        if (a[TCA_STATS2])
                take_drops(a[TCA_STATS2], &q);
        *(struct qdisc *) ret_item = q;
        return 1;
}

static const struct dump_table table = {
        .request = { .type = RTM_GETQDISC,
                     .head = &(const struct tcmsg){ .tcm_family = AF_UNSPEC },
                     .head_size = sizeof(struct tcmsg),
                     .max = 4 * 1024 * 1024 },
        .recorded = "/netlink/qdiscs",
        .answer = RTM_NEWQDISC,
        .item_size = sizeof(struct qdisc),
        .items_max = QDISCS_MAX,
        .parse = parse_qdisc,
};

int qdiscs_parse(const void *data, size_t len, struct qdisc_table *ret) {
        return dump_table_parse(data, len, &table, &ret->qdiscs, &ret->n);
}

int qdiscs_read(const struct host *h, struct qdisc_table *ret) {
        return dump_table_read(h, &table, &ret->qdiscs, &ret->n);
}

void qdisc_table_clear(struct qdisc_table *t) {
        free(t->qdiscs);
        *t = QDISC_TABLE_NULL;
}

/* --- What it does to packets --------------------------------------------------------------------------- */

/* The kernel itself puts these below others, as short as the device asks for. */
static bool is_implied(const struct qdisc *q) {
        return !q->root && q->handle == 0 && (streq(q->kind, "pfifo") || streq(q->kind, "bfifo"));
}

/* A queue that somebody made so short that it drops what a burst brings. */
static bool is_short(const struct qdisc *q) {
        return !is_implied(q) && q->limited &&
               q->limit < (streq(q->kind, "bfifo") ? QDISC_PACKETS_MIN * 1500 : QDISC_PACKETS_MIN);
}

/* These send as fast as the NIC takes it, unless they have a rate. */
static bool is_plain(const struct qdisc *q) {
        static const char *const plain[] = {
                "noqueue", "noop",  "mq",     "mqprio", "multiq", "pfifo_fast", "pfifo",   "pfifo_head_drop",
                "bfifo",   "codel", "fq",     "fq_pie", "sfq",    "fq_codel",   "ingress", "prio",
                "cake",    "clsact",
        };

        for (size_t i = 0; i < ELEMENTSOF(plain); i++)
                if (streq(q->kind, plain[i]))
                        return q->rate == 0 && !is_short(q);
        return false;
}

const struct qdisc *qdisc_that_limits(const struct qdisc_table *t, int index) {
        for (size_t i = 0; i < t->n; i++)
                if (t->qdiscs[i].index == index && !is_plain(&t->qdiscs[i]))
                        return &t->qdiscs[i];
        return NULL;
}

unsigned qdisc_queues_bare(const struct qdisc_table *t, int index, unsigned queues) {
        const struct qdisc *root = qdisc_root(t, index);
        unsigned most = queues > 0 ? queues : UINT16_MAX, last = 1, n = 0;

        /* Of the kernel's own mq no one can take anything away. */
        if (!root || root->handle == 0 || (!streq(root->kind, "mq") && !streq(root->kind, "mqprio")))
                return 0;
        for (size_t i = 0; i < t->n; i++) {
                const struct qdisc *q = &t->qdiscs[i];
                unsigned queue = TC_H_MIN(q->parent);

                if (q->index != index || q->root || TC_H_MAJ(q->parent) != root->handle || queue == 0 ||
                    queue > most || queue >= TC_H_MIN_PRIORITY) /* those above are classes of mqprio */
                        continue;
                last = MAX(last, queue);
                n++;
        }
        last = queues > 0 ? queues : last;
        return last > n ? last - n : 0;
}

const struct qdisc *qdisc_root(const struct qdisc_table *t, int index) {
        for (size_t i = 0; i < t->n; i++)
                if (t->qdiscs[i].index == index && t->qdiscs[i].root)
                        return &t->qdiscs[i];
        return NULL;
}

bool qdisc_is_there(const struct qdisc_table *t, int index, const char *kind) {
        for (size_t i = 0; i < t->n; i++)
                if (t->qdiscs[i].index == index && streq(t->qdiscs[i].kind, kind))
                        return true;
        return false;
}

uint64_t qdisc_drops(const struct qdisc_table *t, int index) {
        const struct qdisc *root = qdisc_root(t, index);

        return root ? root->drops : 0; /* it sums up those below it */
}

#define add_word(buf, ...) text_append(buf, QDISC_WORDS_MAX, "", __VA_ARGS__)

const char *qdisc_words(const struct qdisc *q, char buf[static QDISC_WORDS_MAX]) {
        buf[0] = '\0';
        add_word(buf, "%s", q->kind);
        if (q->rate > 0)
                add_word(buf, " rate %.4g Mbit/s", (double) q->rate * 8 / 1e6);
        if (q->burst > 0)
                add_word(buf, " burst %" PRIu64 " bytes", q->burst);
        if (is_short(q))
                add_word(buf, " limit %" PRIu32, q->limit);
        if (q->delay_usec > 0)
                add_word(buf, " delay %.4g ms", (double) q->delay_usec / 1000);
        if (q->loss_permille > 0)
                add_word(buf, " loss %.1f %%", (double) q->loss_permille / 10);
        return buf;
}
