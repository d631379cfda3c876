/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * TCP connections of this network namespace whose peer no longer answers, as the kernel tells them over
 * sock_diag (linux/inet_diag.h, struct tcp_info): data, a request to connect, a probe of a closed window or of an
 * idle connection was sent and sent again, and no acknowledgement came, also where the program has closed it meanwhile.
 * A peer that is stopped, or reads nothing, still acknowledges: its connection is none. Summed up by
 * pairs of addresses. With a root other than "/" they are read from the dump /netlink/tcp of that root, else
 * -ENODATA.
 */
#include "base.h"
#include "finding.h"
#include "host.h"

#define UNANSWERED_CHECK "path.answer" /* collector/diagnose/paths.h reads these findings */
#define UNANSWERED_MAX 256 /* pairs; further ones are left out */
/* How often the same data was sent again, and how long nothing came back, before it counts: the third
 * repetition comes some seconds after the first sending (RFC 6298), a lost packet has none. */
#define UNANSWERED_REPEATS 3
#define UNANSWERED_SILENCE (2 * USEC_PER_SEC)
/* A request to connect is sent again after 1, 3, 7 s … (RFC 6298, 2.1 and 5.5): two of them are 3 s without an answer. */
#define UNANSWERED_REQUESTS 2

struct unanswered {
        int family; /* AF_INET, AF_INET6 */
        uint8_t local[16], peer[16];
        unsigned connections, repeats; /* repeats: the most of any */
        usec_t silence;                /* since the last acknowledgement, of the one that is silent longest */
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
