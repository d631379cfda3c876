/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether the machines that this host has TCP connections with can be reached now, also where nothing is on its way
 * (unanswered.h sees only data that is): one datagram to a port where nobody listens, from the same address as the
 * connection. The peer's kernel says so (ICMP port unreachable, RFC 1122 3.2.2.1); where firewalls keep that back, nobody
 * is answered, and that is no evidence against one host. Nothing blocks and nothing is waited for: begin it, look some
 * seconds later.
 */
#include "base.h"
#include "finding.h"
#include "host.h"

#define REACH_MAX 32u /* pairs of addresses; further ones are left out */

struct reach;
/* Sends. -ENODATA with a root other than "/"; others of sock_diag. */
int reach_begin(const struct host *h, struct reach **ret);
/* A WARN for each peer that has not answered, or to which nothing could be sent for want of a NIC, an address or a route:
 * check UNANSWERED_CHECK, as unanswered_tell() has it, found REACH_FOUND. ret_answered: how many have. -ENOMEM. */
#define REACH_FOUND "no answer to a datagram" /* behind "from LOCAL, "; collector/diagnose/paths.c tells it by that */
int reach_tell(const struct reach *r, struct finding_list *list, size_t *ret_answered);
struct reach *reach_free(struct reach *r);
DEFINE_CLEANUP(struct reach *, reach_free)

/* Pure: the pairs of a dump, without loopback, those to oneself and repeats; returns how many. -EBADMSG, -ENOMEM. */
struct reach_pair {
        int family;
        uint8_t local[16], peer[16];
};
int reach_parse(const void *data, size_t len, struct reach_pair pairs[static REACH_MAX], size_t *n);
