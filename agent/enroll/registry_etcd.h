/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside of the room: the registry that etcd keeps (docs/registry.md, etcd). One lease carries what this
 * host says and, where it leads, the leader's key; registry_etcd.c joins and is told, etcd_leader.c decides
 * for all.
 *
 * A lease is a lower bound: after a change of etcd's leader it may last longer than was asked for, never
 * shorter. So what is done in its name ends by our own clock: a tenth before the time that was asked for,
 * counted from the question on.
 */
#include "etcd_ops.h"
#include "registry_backend.h"

#define ETCD_PATH_MAX (REGISTRY_KEY_MAX + 96)

#define ETCD_QUESTION_TIME (3 * USEC_PER_SEC) /* or a fifth of the lease */
#define ETCD_WATCH_BLIPS 2 /* a watch that was moved once is no news */

struct etcd_leader;
struct put_request;

struct etcd_registry {
        struct registry base; /* the first member */
        struct etcd *etcd;
        struct etcd_watch *watch;
        struct etcd_leader *leader;
        struct put_request *puts;
        sd_event_source *next;  /* when to try again, or to renew the lease */
        sd_event_source *claim; /* when the lease may have ended */
        json_t *member;
        bool dirty;  /* the member is another one than was written */
        bool busy;   /* a question of joining or renewing is out */
        bool joined; /* under this lease */
        bool conflict, refused, left;
        int64_t lease;   /* 0: none */
        int64_t granted; /* the id of one that was asked for, and may be there; 0: none */
        usec_t lease_until;
        int64_t slot;      /* its revision, where we are a member */
        unsigned failures; /* of questions in a row */
        usec_t slowest;    /* answer of late */
        bool alone;        /* one member of etcd is named */
        unsigned watch_failures;
        char prefix[96], why[256], holder[128]; /* "h1 (10.0.0.2)" */
};

/* "/tpu/TENANT/" and the record's key. */
void etcd_registry_path(const struct etcd_registry *r, const char *key, char path[static ETCD_PATH_MAX]);
/* A record out of its bytes; NULL: it is none. */
json_t *etcd_registry_parse(const Etcd__KeyValue *kv);
usec_t etcd_registry_now(const struct etcd_registry *r);
bool etcd_registry_may_claim(const struct etcd_registry *r);
/* The state anew, for who waits to be told. */
void etcd_registry_show(struct etcd_registry *r);
/* A wait of about that long: a tenth up or down, so that a fleet does not fall into step. */
usec_t etcd_registry_about(usec_t span);
/* 64 random bits. */
uint64_t etcd_registry_chance(void);

/* Goes on with joining, or with the lease (etcd_join.c); does nothing while a question is out. */
void etcd_registry_advance(struct etcd_registry *r);

/* --- What this host is told (etcd_told.c) ----------------------------------------------------------- */

/* Of a transaction: reads all of it, and takes the leader's key where that is free: nobody asks for it in a question of its own. */
void etcd_told_add(const struct etcd_registry *r, struct etcd_ops *o);
/* Its answer; all of its operations are ours or puts. */
void etcd_told_take(struct etcd_registry *r, const Etcd__TxnResponse *t, int64_t revision);
/* What happens to it from this revision on, instead of what was watched before. -ENOMEM. */
int etcd_told_watch(struct etcd_registry *r, int64_t revision);

/* --- The leader (etcd_leader.c) --------------------------------------------------------------------- */

int etcd_leader_new(struct etcd_registry *r, struct etcd_leader **ret);
struct etcd_leader *etcd_leader_free(struct etcd_leader *l);
/* ctl/leader is there, or is not: then this host may become it, if it is a member. */
void etcd_leader_seen(struct etcd_leader *l, bool there);
/* ctl/leader is ours, since this revision. Does nothing when that is known. */
void etcd_leader_won(struct etcd_leader *l, int64_t fence);
/* What it says under ctl/leader; NULL: out of memory. The caller's. */
char *etcd_leader_text(const struct etcd_leader *l);
/* The lease is gone, and the key with it. */
void etcd_leader_stop(struct etcd_leader *l);
