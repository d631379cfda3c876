/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The registry's records in etcd, as the leader reads and writes them.
 *
 * Each transaction compares the create_revision of ctl/leader with the term, so that nobody writes after the
 * next one leads; and the mod_revision of ctl/written, which each transaction writes again: a call that was
 * given up and still lies somewhere in etcd cannot land behind a later one. Whether it had landed shows
 * the number in ctl/written.
 *
 * A batch that is larger than one transaction is written in several: slots first, then slices, intents,
 * runs, the rest, and what is to be forgotten last.
 *
 * No loop of its own: done callbacks come from the port.
 */
#include "election.h"

#define KEEP_OPS 100 /* of a transaction, and one for ctl/written; etcd's bound is 128 */
#define KEEP_BYTES ((size_t) 1000 * 1000)
#define KEEP_PAGE 128
#define KEEP_RECORDS_MAX 500000

struct keep_options {
        struct etcd_port port;
        const struct election *election; /* looked at before each transaction is sent */
        const char *prefix; /* of the tenant, with a slash at its end; borrowed */
        usec_t patience; /* with one call */
        void (*loaded)(int error, const json_t *records, const char *why, void *userdata);
        void (*wrote)(int error, const char *why, void *userdata);
        void (*deposed)(const char *why, void *userdata); /* a transaction found another leader */
        void *userdata;
};

struct op {
        char *key;
        json_t *request; /* as a transaction has it */
        size_t bytes;    /* of path and value, as etcd counts them */
        unsigned order;
};

struct keep {
        struct keep_options o;
        uint64_t term;
        /* Loading. */
        json_t *records; /* by key behind the prefix */
        int64_t revision;
        char behind[GATEWAY_KEY_MAX];
        /* Writing. */
        struct op *ops;
        size_t n_ops, at, n_sent; /* at: those in front are written */
        uint64_t number; /* of the last transaction that was sent */
        int64_t written; /* mod_revision of ctl/written, as last known */
};

void keep_init(struct keep *k, const struct keep_options *o);
/* Ends what is in progress, and forgets. */
void keep_clear(struct keep *k);
/* Reads all records as of one revision; loaded() follows. */
void keep_load(struct keep *k, uint64_t term);
/*
 * Writes a batch; wrote() follows when this returned 0. -ENOMEM; -EMSGSIZE: a record is too large; -ESTALE:
 * the deadline is over.
 */
int keep_write(struct keep *k, const json_t *batch);
