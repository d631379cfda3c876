/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where the registry's records are kept, and with it who may decide. A store reports to the registry that
 * this collector leads, with all records as of one moment, and that it does not any more; between the two it
 * takes batches of changed records, one at a time. With SQLite (control_sqlite.c) there is always a leader
 * and a batch is written at once; with etcd (control_etcd.c) whoever holds the leader's key leads.
 */
#include <jansson.h>
#include <systemd/sd-event.h>

#include "base.h"
#include "clock.h"
#include "store.h"

#define CONTROL_URL_MAX 192
#define CONTROL_ID_MAX 41 /* docs/registry.md: at most 40 bytes */
#define CONTROL_WHY_MAX 256

struct control_store;

/* What the store calls. Except where it says so, not from inside of its own functions. */
struct control_events {
        /*
         * This collector leads from now on; records: key -> value, all of them, borrowed. control_start()
         * may call it.
         */
        int (*led)(const json_t *records, void *userdata); /* -errno: it cannot */
        /* It leads no more: nothing of the term may be published or decided any more. */
        void (*lost)(const char *why, void *userdata);
        /*
         * The batch of ops->write() is written (0), or not, or nobody knows (-errno, store->why): it is
         * to be written again.
         */
        void (*wrote)(int error, void *userdata);
        /*
         * What belongs into the local database together with the batch: called inside its transaction, by a
         * store that has one.
         */
        int (*along)(void *userdata);
        /* ops->resign() has ended. */
        void (*resigned)(void *userdata);
};

struct control_ops {
        bool takes_along; /* calls along */
        int (*start)(struct control_store *s);
        /* Whether this very moment belongs to the term. */
        bool (*leads)(const struct control_store *s);
        /*
         * 0: written; 1: wrote() follows; -errno with why: not written. batch: key -> value or null;
         * borrowed until then.
         */
        int (*write)(struct control_store *s, const json_t *batch);
        /* 0: done; 1: resigned() follows. NULL where takes_along: there is nobody else. */
        int (*resign)(struct control_store *s);
        struct control_store *(*free)(struct control_store *s);
};

struct control_store {
        const struct control_ops *ops;
        const struct control_events *events;
        void *userdata; /* of the events */
        uint64_t term; /* of the present leadership */
        char id[CONTROL_ID_MAX]; /* the same in all collectors that share the records */
        char why[CONTROL_WHY_MAX]; /* of the last failure */
        /* of the collector that leads; empty: not known, or this one */
        char agents_url[CONTROL_URL_MAX], people_url[CONTROL_URL_MAX];
};

static inline int control_start(struct control_store *s, const struct control_events *events,
                                void *userdata) {
        s->events = events;
        s->userdata = userdata;
        return s->ops->start(s);
}

static inline struct control_store *control_free(struct control_store *s) {
        return s ? s->ops->free(s) : NULL;
}
DEFINE_CLEANUP(struct control_store *, control_free)

/*
 * The registry's records in the collector's own database: one collector, which always leads; its term is 0.
 */
/* store is borrowed. */
int control_sqlite_new(struct store *store, struct control_store **ret);

/*
 * The registry's records in etcd, shared by any number of collectors, of which one leads (etcd/election.h,
 * etcd/keep.h).
 */

struct etcd_access;
struct control_etcd_options {
        sd_event *event;
        const struct clock *clock;
        usec_t lease;
        const char *tenant;
        const char *agents_url, *people_url; /* own, as others reach it */
        const struct etcd_access *access;    /* etcd/client.h */
};

/* o's texts and access are borrowed. -EINVAL: why. */
int control_etcd_new(const struct control_etcd_options *o, struct control_store **ret, char why[static 256]);
