/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Queueing disciplines of NICs as the kernel tells them over rtnetlink (RTM_GETQDISC): which of them limit,
 * delay or lose what is sent, and what they dropped. With a root other than "/" they are read from the dump
 * /netlink/qdiscs of that root, else -ENODATA.
 */
#include "base.h"
#include "host.h"

#define QDISCS_MAX 4096

struct qdisc {
        int index; /* of the NIC */
        uint32_t handle, parent;
        char kind[16];  /* "mq", "fq", "tbf", … */
        bool limits;    /* it is there to limit, delay or lose */
        uint64_t rate;  /* bytes a second that it lets pass; 0: not known, or none is set */
        uint64_t drops; /* packets, since it was made */
};

struct qdisc_table {
        struct qdisc *qdiscs;
        size_t n;
};
#define QDISC_TABLE_NULL ((struct qdisc_table) { 0 })

/* -ENODATA: this root has no dump; -E2BIG: more than QDISCS_MAX; -EBADMSG: malformed; -EINTR: they changed
 * under each of our reads. Clear with qdisc_table_clear(). */
int qdiscs_read(const struct host *h, struct qdisc_table *ret);
int qdiscs_parse(const void *data, size_t len, struct qdisc_table *ret);
void qdisc_table_clear(struct qdisc_table *t);
#define _cleanup_qdiscs_ _cleanup_(qdisc_table_clear)

/* The root one of a NIC, or NULL. */
const struct qdisc *qdisc_root(const struct qdisc_table *t, int index);
/* Whether it sits below another of its NIC that limits, too. */
bool qdisc_is_below_limit(const struct qdisc_table *t, const struct qdisc *q);

/* "tbf, 50 Mbit/s, 12 packets dropped". */
#define QDISC_WORDS_MAX 96
const char *qdisc_words(const struct qdisc *q, char buf[static QDISC_WORDS_MAX]);
/* Where it is, as tc(8) takes it: "root", "parent 1:2". */
const char *qdisc_place(const struct qdisc *q, char buf[static 32]);
