/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A client of etcd (version 3 API by gRPC; 3.4 and later) over several of its members: one is asked; when it
 * does not answer the next one is, and watches move with it. Asynchronous in the event loop, nothing blocks.
 *
 * Questions that change nothing when they come twice (ranges, leases under an id of our own) are asked again
 * of the next member when an answer does not come, each member once. A transaction is only when it certainly
 * never left. So GRPC_UNCERTAIN of a transaction means: it may have been done; look, and let the transaction
 * compare, so that the same one a second time does no harm. What all members failed at is the caller's to
 * try again, after backoff_next().
 *
 * All but stale reads carry `hasleader`: a member that is cut off from the others says so at once, and ends
 * its watches. etcd with client certificates takes the user's name from the certificate's CN.
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "etcd_message.h"
#include "grpc.h"

#define ETCD_ENDPOINTS_MAX 9
#define ETCD_OPS_MAX 128 /* of a transaction; etcd's own limit (--max-txn-ops) */

struct etcd_options {
        const char *endpoints;       /* URLs of members, comma list; all with or all without TLS */
        const char *ca, *cert, *key; /* files; NULL: none */
        const char *user_agent;
        usec_t timeout; /* of one question to one member */
};

struct etcd;
/* All texts are copied. -EINVAL with why: endpoints. */
int etcd_new(sd_event *e, const struct etcd_options *o, struct etcd **ret, char why[static 256]);
/* Not out of a callback of its own. Nothing is called any more. */
struct etcd *etcd_free(struct etcd *c);
DEFINE_CLEANUP(struct etcd *, etcd_free)

/* Of one question to one member, from the next one on. */
void etcd_set_timeout(struct etcd *c, usec_t timeout);

struct etcd_answer {
        enum grpc_outcome outcome;
        enum grpc_status status;
        const char *why;      /* with the member's URL; "" when answered */
        const char *endpoint; /* who was asked last */
        usec_t asked; /* boot clock, when first: a lease lasts from here on, not from the answer on */
        const struct etcd_message *message; /* NULL: not answered; valid inside the callback only */
};
typedef void (*etcd_done)(const struct etcd_answer *a, void *userdata);

/* Each: 0, and done is called later, once; or -ENOMEM, and it is not. */

struct etcd_range_question {
        const char *key;
        const char *after;       /* only those behind this one; NULL: all */
        bool stale;              /* what the member asked knows, which works without a quorum, too */
        int64_t revision, limit; /* 0: the newest, all */
};
int etcd_range(struct etcd *c, const struct etcd_range_question *q, etcd_done done, void *userdata);
/* t: packed before it returns. */
int etcd_txn(struct etcd *c, const Etcd__TxnRequest *t, etcd_done done, void *userdata);
/* id: 63 random bits of the caller's, so that one that exists already is the one that was asked for before.
 */
int etcd_lease_grant(struct etcd *c, int64_t id, unsigned seconds, etcd_done done, void *userdata);
/* Answered with ttl 0: there is no such lease any more. */
int etcd_lease_keep(struct etcd *c, int64_t id, etcd_done done, void *userdata);
int etcd_lease_revoke(struct etcd *c, int64_t id, etcd_done done, void *userdata);

struct etcd_watch;
#define ETCD_WATCH_KEYS_MAX 8
struct etcd_watch_question {
        const char *keys[ETCD_WATCH_KEYS_MAX]; /* in one stream; NULL: no more */
        const char *ends[ETCD_WATCH_KEYS_MAX]; /* up to here, and not this one; NULL: as the key says */
        /*
         * So many of the keys are watched at once, the others this much later, from the same revision on: each
         * watcher costs etcd a copy of all that is not written to its disk yet, which is most while a fleet
         * joins. 0: all at once.
         */
        size_t at_once;
        usec_t later;
        int64_t revision;                      /* the first one whose events are told */
        void (*event)(const Etcd__Event *e, void *userdata);
        /*
         * The events from where it stood on are no longer there (compaction): ask for the range, watch anew
         * from behind its revision. The watch is idle from here on and wants to be freed.
         */
        void (*lost)(void *userdata);
        /* why: NULL: it stands (again); else why not. It tries again by itself, from where it was. */
        void (*state)(const char *why, void *userdata);
        void *userdata;
};
int etcd_watch_new(struct etcd *c, const struct etcd_watch_question *q, struct etcd_watch **ret);
/* Also out of its own callbacks. etcd_free() frees those that are left. */
struct etcd_watch *etcd_watch_free(struct etcd_watch *w);
