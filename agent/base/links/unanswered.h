/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * TCP connections of this network namespace whose peer no longer answers, as the kernel tells them over
 * sock_diag (linux/inet_diag.h, struct tcp_info): data, a request to connect, a probe of a closed window or
 * of an idle connection was sent and retransmitted, and no acknowledgement came, also where the program has
 * closed it meanwhile. A peer that is stopped, or reads nothing, still acknowledges: its connection is none.
 * Summed up by pairs of addresses. With a root other than "/" they are read from the dump /netlink/tcp of
 * that root, else -ENODATA.
 */
#include "base.h"
#include "finding.h"
#include "host.h"

#define UNANSWERED_CHECK "path.answer" /* collector/diagnose/paths.h reads these findings */
#define UNANSWERED_MAX 256 /* pairs; further ones are left out */
/* How often the same data was retransmitted, and how long nothing came back, before it counts: the third
 * repetition comes some seconds after the first sending (RFC 6298), a lost packet has none. */
#define UNANSWERED_REPEATS 3
#define UNANSWERED_SILENCE (2 * USEC_PER_SEC)
/* A request to connect is sent again after 1, 3, 7 s … (RFC 6298, 2.1 and 5.5): two of them are 3 s without
 * an answer. */
#define UNANSWERED_REQUESTS 2

struct unanswered {
        int family; /* AF_INET, AF_INET6 */
        uint8_t local[16], peer[16];
        unsigned connections, repeats; /* repeats: the most of any */
        /* since the last acknowledgement, of the one that is silent longest */
        usec_t silence;
};

struct unanswered_table {
        struct unanswered *pairs;
        size_t n, answered; /* answered: connections that are not among them */
};
#define UNANSWERED_TABLE_NULL ((struct unanswered_table) { 0 })
void unanswered_table_clear(struct unanswered_table *t);
#define _cleanup_unanswered_ _cleanup_(unanswered_table_clear)

/* -ENODATA: this root has no dump; -ENOENT: a kernel without sock_diag; -E2BIG: more connections than are
 * looked at; -EBADMSG: malformed; -EINTR, -EAGAIN: they changed under each of our reads. */
int unanswered_read(const struct host *h, struct unanswered_table *ret);
int unanswered_parse(const void *data, size_t len, struct unanswered_table *ret);

/* A WARN for each pair, of check UNANSWERED_CHECK: subject is the peer's address, found begins with "from
 * LOCAL, ". For captures of a run that stalls: a peer that went away by itself is no fault of the host, so
 * this is no check of its health. Errors as above, -ENOMEM. */
int unanswered_tell(const struct unanswered_table *t, struct finding_list *list);

/*
 * Whether the machines that this host has TCP connections with can be reached now, also where nothing is
 * in flight (unanswered.h sees only data that is): one datagram to a port where nobody listens, from the
 * same address as the connection. The peer's kernel says so (ICMP port unreachable, RFC 1122 3.2.2.1); where
 * firewalls keep that back, nobody is answered, and that is no evidence against one host. Nothing blocks and
 * nothing is waited for: begin it, look some seconds later.
 */

#define REACH_MAX 32u /* pairs of addresses; further ones are left out */

struct reach;
/* Sends. -ENODATA with a root other than "/"; others of sock_diag. */
int reach_begin(const struct host *h, struct reach **ret);
/* A WARN for each peer that has not answered, or to which nothing could be sent for want of a NIC, an
 * address or a route: check UNANSWERED_CHECK, as unanswered_tell() has it, found REACH_FOUND. ret_answered:
 * how many have. -ENOMEM. */
/* behind "from LOCAL, "; collector/diagnose/paths.c recognises it by that */
#define REACH_FOUND "no answer to a datagram"
int reach_tell(const struct reach *r, struct finding_list *list, size_t *ret_answered);
struct reach *reach_free(struct reach *r);
DEFINE_CLEANUP(struct reach *, reach_free)

/* Pure: the pairs of a dump, without loopback, those to oneself and repeats; returns how many. -EBADMSG,
 * -ENOMEM. */
struct reach_pair {
        int family;
        uint8_t local[16], peer[16];
};
int reach_parse(const void *data, size_t len, struct reach_pair pairs[static REACH_MAX], size_t *n);
