/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Queueing disciplines of the NICs as the kernel tells them over rtnetlink (RTM_GETQDISC): which hold back,
 * delay or drop what is sent. With a root other than "/" they are read from the dump /netlink/qdiscs of that
 * root, else -ENODATA.
 */
#include "base.h"
#include "host.h"

#define QDISCS_MAX 4096

struct qdisc {
        int index; /* of the NIC */
        char kind[16]; /* "tbf", "fq_codel" */
        bool root;
        uint32_t handle;        /* 0: the kernel's own, which nobody set */
        uint32_t parent;        /* the class above that it hangs at; its minor number of mq is the queue's */
        uint64_t rate, burst;   /* bytes a second, bytes; 0: none, or not known */
        bool limited;           /* its limit is known */
        uint32_t limit;         /* packets, of bfifo bytes */
        uint32_t loss_permille; /* of netem */
        uint64_t delay_usec;
        uint64_t drops;
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

#define QDISC_PACKETS_MIN 64 /* one connection's burst: a queue with less room drops some of it */

/* The one of the NIC that no kernel sets by itself and that holds back, delays or drops; NULL: none. */
const struct qdisc *qdisc_that_limits(const struct qdisc_table *t, int index);
/* How many of the NIC's queues somebody left without one, below an mq or mqprio: the kernel throws away what
 * they are given, and dumps nothing of them. queues: that the NIC has; 0: not known. */
unsigned qdisc_queues_bare(const struct qdisc_table *t, int index, unsigned queues);
/* The NIC's own, where the others hang; NULL: none. */
const struct qdisc *qdisc_root(const struct qdisc_table *t, int index);
/* Whether the NIC has one of that kind. */
bool qdisc_is_there(const struct qdisc_table *t, int index, const char *kind);
/* Packets that qdiscs of the NIC have dropped since they were set. */
uint64_t qdisc_drops(const struct qdisc_table *t, int index);

/* "tbf rate 50 Mbit/s burst 4000 bytes", "netem delay 10000 us loss 20.0 %". */
#define QDISC_WORDS_MAX 96
const char *qdisc_words(const struct qdisc *q, char buf[static QDISC_WORDS_MAX]);
