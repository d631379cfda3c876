/* SPDX-License-Identifier: Apache-2.0 */
#include "qdiscs.h"

#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "netlink.h"

static const struct nla_policy qdisc_policy[TCA_MAX + 1] = {
        [TCA_KIND] = { .type = NLA_NUL_STRING, .maxlen = 16 },
        [TCA_OPTIONS] = { .type = NLA_UNSPEC },
        [TCA_STATS2] = { .type = NLA_NESTED },
};

/* --- What it lets pass -------------------------------------------------------------------------------- */

/* A rate of 64 bits, or where there is none the one within a structure. */
static uint64_t rate_of(const struct nlattr *wide, const struct nlattr *narrow, size_t at) {
        uint64_t rate64;
        uint32_t rate32;

        if (wide && nla_len(wide) == sizeof(rate64)) {
                memcpy(&rate64, nla_data(wide), sizeof(rate64));
                return rate64;
        }
        if (!narrow || nla_len(narrow) < (int) (at + sizeof(rate32)))
                return 0;
        memcpy(&rate32, (const char *) nla_data(narrow) + at, sizeof(rate32));
        return rate32;
}

/* A flow's greatest rate; all bits set: none. */
static uint64_t fq_rate(const struct nlattr *a) {
        uint64_t rate = rate_of(NULL, a, 0);

        return rate == UINT32_MAX ? 0 : rate;
}

/* netem's options begin with a structure, and attributes follow. */
static uint64_t netem_rate(const struct nlattr *options) {
        int head = NLA_ALIGN((int) sizeof(struct tc_netem_qopt)), left = nla_len(options) - head;
        const struct nlattr *wide = NULL, *narrow = NULL;

        if (left <= 0)
                return 0;
        wide = nla_find((void *) ((char *) nla_data(options) + head), left, TCA_NETEM_RATE64);
        narrow = nla_find((void *) ((char *) nla_data(options) + head), left, TCA_NETEM_RATE);
        return rate_of(wide, narrow, offsetof(struct tc_netem_rate, rate));
}

static int take_limit(struct nlattr *options, struct qdisc *q) {
        static const char *const shapers[] = { "htb", "hfsc", "cbq", "tbf", "netem" };
        struct nlattr *a[MAX((int) TCA_CAKE_MAX, (int) TCA_FQ_MAX) + 1];

        for (size_t k = 0; k < ELEMENTSOF(shapers); k++)
                q->limits |= streq(q->kind, shapers[k]);
        if (!options)
                return 0;
        if (streq(q->kind, "netem")) {
                q->rate = netem_rate(options);
                return 0;
        }
        if (!streq(q->kind, "tbf") && !streq(q->kind, "fq") && !streq(q->kind, "cake"))
                return 0;
        if (nla_parse_nested(a, ELEMENTSOF(a) - 1, options, NULL) < 0)
                return -EBADMSG;
        if (streq(q->kind, "tbf"))
                q->rate = rate_of(a[TCA_TBF_RATE64], a[TCA_TBF_PARMS],
                                  offsetof(struct tc_tbf_qopt, rate.rate));
        else
                q->rate = streq(q->kind, "fq") ? fq_rate(a[TCA_FQ_FLOW_MAX_RATE])
                                               : rate_of(a[TCA_CAKE_BASE_RATE64], NULL, 0);
        q->limits |= q->rate > 0;
        return 0;
}

static void take_drops(struct nlattr *stats, struct qdisc *q) {
        const struct nlattr *a = nla_find(nla_data(stats), nla_len(stats), TCA_STATS_QUEUE);
        struct gnet_stats_queue queue;

        if (!a || nla_len(a) < (int) sizeof(queue))
                return;
        memcpy(&queue, nla_data(a), sizeof(queue));
        q->drops = queue.drops;
}

static int parse_qdisc(struct nlmsghdr *h, void *ret_item) {
        struct nlattr *a[TCA_MAX + 1];
        struct qdisc q = { 0 };
        const struct tcmsg *m;
        int r;

        if (!nlmsg_valid_hdr(h, sizeof(*m)) || nlmsg_parse(h, sizeof(*m), a, TCA_MAX, qdisc_policy) < 0 ||
            !a[TCA_KIND])
                return -EBADMSG;
        m = nlmsg_data(h);
        q.index = m->tcm_ifindex;
        q.handle = m->tcm_handle;
        q.parent = m->tcm_parent;
        (void) snprintf(q.kind, sizeof(q.kind), "%s", nla_get_string(a[TCA_KIND]));
        r = take_limit(a[TCA_OPTIONS], &q);
        if (r < 0)
                return r;
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

/* --- Asked of it -------------------------------------------------------------------------------------- */

const struct qdisc *qdisc_root(const struct qdisc_table *t, int index) {
        for (size_t k = 0; k < t->n; k++)
                if (t->qdiscs[k].index == index && t->qdiscs[k].parent == TC_H_ROOT)
                        return &t->qdiscs[k];
        return NULL;
}

bool qdisc_is_below_limit(const struct qdisc_table *t, const struct qdisc *q) {
        for (size_t k = 0; k < t->n; k++)
                if (t->qdiscs[k].index == q->index && t->qdiscs[k].limits && q->parent != TC_H_ROOT &&
                    TC_H_MAJ(t->qdiscs[k].handle) == TC_H_MAJ(q->parent))
                        return true;
        return false;
}

const char *qdisc_words(const struct qdisc *q, char buf[static QDISC_WORDS_MAX]) {
        double bits = (double) q->rate * 8;
        char rate[40] = "", drops[40] = "";

        if (q->rate > 0)
                (void) snprintf(rate, sizeof(rate), ", %.4g %s", bits >= 1e9 ? bits / 1e9 : bits / 1e6,
                                bits >= 1e9 ? "Gbit/s" : "Mbit/s");
        if (q->limits)
                (void) snprintf(drops, sizeof(drops), ", %" PRIu64 " packets dropped", q->drops);
        (void) snprintf(buf, QDISC_WORDS_MAX, "%s%s%s", q->kind, rate, drops);
        return buf;
}

const char *qdisc_place(const struct qdisc *q, char buf[static 32]) {
        if (q->parent == TC_H_ROOT)
                (void) snprintf(buf, 32, "root");
        else
                (void) snprintf(buf, 32, "parent %x:%x", TC_H_MAJ(q->parent) >> 16, TC_H_MIN(q->parent));
        return buf;
}
