/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The registry of the collector (docs/registry.md): members with their leases in memory, everything else in
 * a store (control_store.h), decided by the planner (gang.h). It knows no HTTP: calls come as bodies,
 * answers go to the owner.
 *
 * A record is written before it is published. Many changes are one decision and one batch; what is
 * decided while a batch is being written is the next one. A collector that does not lead knows no records:
 * it names the one that does.
 */
#include <systemd/sd-event.h>

#include "clock.h"
#include "control_store.h"
#include "gang.h"
#include "store.h"

#define REGISTRY_WAIT_MAX (10 * USEC_PER_SEC) /* and at most half of the lease */
/* Hosts: of larger runs a host is sent the hosts of its own slice, and how many the others have. */
#define REGISTRY_RUN_WHOLE 512
/*
 * Of a slice of more hosts that still forms a host is sent how many they are, and so many of the
 * missing.
 */
#define REGISTRY_FORMING_NAMED 16
#define REGISTRY_TENANT "default" /* of hosts and collectors that name none */
#define REGISTRY_TOGETHER (10 * USEC_PER_MSEC) /* changes within this are decided together */
/* Runs of one host that its figures may be of: as many as its agent lists. */
#define REGISTRY_FIGURES_MAX 64u
#define REGISTRY_KEPT_MAX ((size_t) 64 * 1024) /* bytes of a record of registry_keep() */
#define REGISTRY_WHY_MAX 256

/* An answer; many calls may share one. */
struct registry_body {
        unsigned users;
        size_t len;
        char text[];
};
struct registry_body *registry_body_unref(struct registry_body *b);

struct registry_counters {
        uint64_t syncs, answers, answered_bytes, refused, decisions, failed_commits, expired, elsewhere;
        usec_t decided; /* time that decisions took */
};

struct control_registry_options {
        sd_event *event;
        struct store *store; /* what is worth an event goes there */
        struct control_store *control; /* taken over, also by a control_registry_new() that fails */
        const struct clock *clock;
        usec_t lease; /* whole seconds */
        bool preflight_pairs; /* gang_options */
        const char *tenant; /* hosts of another are refused */
        /* A call that was kept is answered now. The body is given back with registry_body_unref(). */
        void (*answer)(void *call, unsigned status, struct registry_body *body, void *userdata);
        /* a record changed, and is stored; NULL: gone. May be NULL */
        void (*published)(const char *key, const json_t *value, void *userdata);
        /* What a host says of how its runs go on (docs/registry.md, figures): a list of at most
         * REGISTRY_FIGURES_MAX with a run that the host may speak of, else not looked at yet; borrowed. May
         * be NULL. */
        void (*figures)(const char *slice, unsigned worker, const char *host, const json_t *list,
                        void *userdata);
        void (*events)(void *userdata); /* events were stored */
        void (*leads)(bool leads, void *userdata); /* from now on. May be NULL */
        void (*resigned)(void *userdata); /* registry_resign() has ended */
        void (*failed)(int error, void *userdata); /* the store said no: -errno, outside of a transaction */
        /* Whether the site gives this worker slot to the host; false: why. NULL: the site does not say. */
        bool (*gives)(const char *slice, unsigned worker, const char *host,
                      char why[static REGISTRY_WHY_MAX], void *userdata);
        /* For gang_suspect(), before each decision. Borrowed. May be NULL */
        const json_t *(*suspects)(void *userdata);
        void *userdata;
};

struct registry;
/*
 * o is copied, its texts borrowed. Where there is one collector alone it leads when this returns: what was
 * kept is loaded. A record that cannot be understood is logged and left out.
 */
int control_registry_new(const struct control_registry_options *o, struct registry **ret);
/* Answers all that wait with 503. */
struct registry *control_registry_free(struct registry *r);
DEFINE_CLEANUP(struct registry *, control_registry_free)

/*
 * POST /registry/v1/sync. 0: the call is kept, answer() brings the answer, not from inside. Else an HTTP
 * status with an answer (200 too); *ret_body has one user. 403: it speaks for another host than it is, or
 * has a worker slot that is another host's.
 */
struct registry_speaker {
        const char *host; /* that the caller is proved to be: it speaks for no other; NULL: for any */
        const char *instance; /* the id of its VM, likewise; empty, or NULL: not known */
        char why[REGISTRY_WHY_MAX]; /* set with 403 */
};
unsigned registry_sync(struct registry *r, struct registry_speaker *who, const char *body, size_t len,
                       void *call, struct registry_body **ret_body);

/*
 * What people want (gang_want()): decided when this returned 0, and stored when registry_is_stored() says
 * so. Errors besides gang_want()'s: -EIO, the store does not take it; -EAGAIN, this collector does not lead.
 */
int registry_want(struct registry *r, const char *key, const json_t *value, char why[static GANG_WHY_MAX]);
int registry_release(struct registry *r, const char *slice, unsigned worker, char why[static GANG_WHY_MAX]);

/*
 * A record of the collector's own, with a key of episode/: stored with the next batch, given to published(),
 * sent to no host; NULL: forgotten. Those that were kept are given to published() from the loop, with the
 * first decision of a term. -EAGAIN: this collector does not lead; -EINVAL: the key; -E2BIG
 * beyond REGISTRY_KEPT_MAX.
 */
int registry_keep(struct registry *r, const char *key, const json_t *value);
/* Whether all that is decided is stored. */
bool registry_is_stored(const struct registry *r);
/*
 * done is called when it is (0); or -EIO: the store did not take it this time; -EAGAIN: the leadership is
 * lost, or the registry ends.
 */
int registry_when_stored(struct registry *r, void (*done)(int error, void *userdata), void *userdata);

/* Whether this collector leads, this very moment. Looked at before anything of the registry is published. */
bool registry_leads(struct registry *r);
/* Who leads when it does not: URLs for agents and for people, empty when not known. */
const struct control_store *registry_control(const struct registry *r);
/* 421 or 503, as hosts are answered where this collector does not lead. */
unsigned registry_elsewhere(struct registry *r, struct registry_body **ret_body);
/* Gives the leadership up, so that another need not wait for its lease. 0: done; 1: resigned() follows. */
int registry_resign(struct registry *r);

/* What a host may do: idle, and the words of its figures (docs/registry.md). Ended by NULL. */
extern const char *const registry_doings[];

/* The last whole checkpoint of a run, as a host's figures say (docs/registry.md); -1: not known. */
struct run_checkpoint {
        int64_t at; /* real clock, µs; -1: none */
        int64_t step, took, since; /* took: µs; since: steps made since then */
};

/* A host that has, or had, a worker id of a slice. Texts are borrowed inside the visitor, and never NULL. */
struct registry_host {
        const char *name, *slice;
        unsigned worker;
        bool member;          /* its lease has not ended */
        usec_t heard, joined; /* real clock; of one that is no member: since when it is missed, or 0 */
        const char *why;      /* it is no member */
        const json_t *report; /* of a member: state, reasons, orders, observe, notice, accelerator, topology,
                                 version, suspicion (why its run is taken for stalled); else NULL */
        const char *run;      /* by its last figures, else its report; "": none */
        int64_t step;         /* likewise; -1 */
        int64_t step_time;    /* by its last figures, µs; -1: not known, as of the others */
        double goodput;       /* 0 to 1; NaN */
        struct run_checkpoint checkpoint;
        const char *doing;    /* one of registry_doings, "": not known */
};
/* All of them, in no order. A non-zero answer ends it and is returned. */
int registry_visit_hosts(const struct registry *r,
                         int (*visit)(const struct registry_host *h, void *userdata), void *userdata);
/* Whether this life of this host is a member there; and whether any member has that name. */
bool registry_is_member(const struct registry *r, const char *slice, unsigned worker, const char *host,
                        const char *incarnation);
bool registry_has_host(const struct registry *r, const char *name);

/* A record as it is stored and published; NULL: there is none. Borrowed until the next call. */
const json_t *registry_record(const struct registry *r, const char *key);
void registry_visit(const struct registry *r, const char *prefix,
                    void (*visit)(const char *key, const json_t *value, void *userdata), void *userdata);
/* The planner, with what is decided and not stored yet; NULL: this collector does not lead. */
const struct gang *registry_gang(const struct registry *r);
unsigned registry_members(const struct registry *r);
const struct registry_counters *registry_counters(const struct registry *r);
/* The store was replaced, and is empty: everything is written again. */
void registry_write_all(struct registry *r);
