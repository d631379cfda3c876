/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The registry of the collector (docs/registry.md): members with their leases in memory, everything else in the
 * store, decided by the planner (gang.h). It knows no HTTP: calls come as bodies, answers go to the owner.
 *
 * A record is on the disk before anybody is told of it. Many changes are one decision and one commit.
 */
#include <systemd/sd-event.h>

#include "clock.h"
#include "gang.h"
#include "store.h"

#define REGISTRY_WAIT_MAX (10 * USEC_PER_SEC) /* and at most half of the lease */
#define REGISTRY_RUN_WHOLE 512 /* hosts: of larger runs a host is told who is in its own slice, and how many in the others */
#define REGISTRY_TOGETHER (10 * USEC_PER_MSEC) /* changes within this are decided together */
#define REGISTRY_FIGURES_MAX 16u /* runs of one host that its figures may be of */
#define REGISTRY_KEPT_MAX ((size_t) 64 * 1024) /* bytes of a record of registry_keep() */

/* An answer; many calls may share one. */
struct registry_body {
        unsigned users;
        size_t len;
        char text[];
};
struct registry_body *registry_body_unref(struct registry_body *b);

struct registry_counters {
        uint64_t syncs, answers, answered_bytes, refused, decisions, commits, failed_commits, expired;
        usec_t decided; /* time that decisions took */
};

struct registry_options {
        sd_event *event;
        struct store *store;
        const struct clock *clock;
        usec_t lease; /* whole seconds */
        const char *host; /* of the collector itself: events that are no host's stand under its name */
        /* A call that was kept is answered now. The body is given back with registry_body_unref(). */
        void (*answer)(void *call, unsigned status, struct registry_body *body, void *userdata);
        void (*published)(const char *key, const json_t *value, void *userdata); /* a record is another one now, and stored; NULL: gone. May be NULL */
        /* What a host says of how its runs go on (docs/registry.md, figures): a list, borrowed, not looked
         * at yet. May be NULL. */
        void (*figures)(const char *slice, unsigned worker, const char *host, const json_t *list,
                        void *userdata);
        void (*events)(void *userdata); /* events were stored */
        void (*failed)(int error, void *userdata); /* the store said no: -errno, outside of a transaction */
        void *userdata;
};

struct registry;
/* Reads what is kept. o is copied. A record that cannot be understood is logged and left out. */
int registry_new(const struct registry_options *o, struct registry **ret);
/* Answers all that wait with 503. */
struct registry *registry_free(struct registry *r);
DEFINE_CLEANUP(struct registry *, registry_free)

/*
 * POST /registry/v1/sync. 0: the call is kept, answer() brings the answer, not from inside. Else an HTTP status with an
 * answer (200 too); *ret_body has one user.
 */
unsigned registry_sync(struct registry *r, const char *body, size_t len, void *call, struct registry_body **ret_body);

/* What people want (gang_want()): decided and stored when this returned 0. Errors besides gang_want()'s: the store's. */
int registry_want(struct registry *r, const char *key, const json_t *value, char why[static GANG_WHY_MAX]);
int registry_release(struct registry *r, const char *slice, unsigned worker, char why[static GANG_WHY_MAX]);

/*
 * A record of the collector's own, "episode/ID": stored with the next commit, given to published(), told to
 * no host. NULL: forgotten. Those that were kept are given to published() when the loop has begun. -E2BIG
 * beyond REGISTRY_KEPT_MAX, -ENOMEM.
 */
int registry_keep(struct registry *r, const char *key, const json_t *value);

/* A host that has, or had, a worker id of a slice. Texts are borrowed inside the visitor, and never NULL. */
struct registry_host {
        const char *name, *slice;
        unsigned worker;
        bool member;          /* its lease has not ended */
        usec_t heard, joined; /* real clock; of one that is no member: since when it is missed, or 0 */
        const char *why;      /* it is no member */
        const json_t *report; /* of a member: state, reasons, orders, observe, notice, accelerator, version;
                                 else NULL */
        const char *run;      /* by its last figures, else its report; "": none */
        int64_t step;         /* likewise; -1 */
};
/* All of them, in no order. A non-zero answer ends it and is returned. */
int registry_visit_hosts(const struct registry *r,
                         int (*visit)(const struct registry_host *h, void *userdata), void *userdata);
/* Whether this life of this host is a member there; and whether any member has that name. */
bool registry_is_member(const struct registry *r, const char *slice, unsigned worker, const char *host,
                        const char *incarnation);
bool registry_has_host(const struct registry *r, const char *name);

/* The records, for reading only: record, visit. */
const struct gang *registry_gang(const struct registry *r);
unsigned registry_members(const struct registry *r);
const struct registry_counters *registry_counters(const struct registry *r);
/* The store is another one now, and empty: everything is written again. */
void registry_write_all(struct registry *r);
