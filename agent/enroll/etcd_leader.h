/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The agent that decides for all: it holds ctl/leader, runs the planner on what members say and people want,
 * and writes what is decided by transactions that fail when it is the leader no more (the key's
 * create_revision is the fence). etcd_leader.c becomes it and reads what is kept, etcd_decide.c plans and
 * writes.
 */
#include "gang.h"
#include "registry_etcd.h"

#define ETCD_TOGETHER (10 * USEC_PER_MSEC) /* news that come together are planned together */

enum lead {
        LEAD_NOT,     /* another one does, or none can be asked for yet */
        LEAD_TRYING,  /* ctl/leader is free: the timer runs, or the question is out */
        LEAD_READING, /* what is kept, page by page */
        LEAD_AT_WORK,
};

struct etcd_leader {
        struct etcd_registry *r;
        enum lead state;
        bool asked, writing; /* asked: whether ctl/leader is ours is not known */
        unsigned turn;       /* answers to questions of an earlier turn are passed over */
        struct turn *turns;  /* of the questions that are out */
        unsigned failures;
        int64_t fence, revision;
        struct gang *gang;
        json_t *members;           /* path of member/ or claim/ → what it says */
        json_t *pending, *sending; /* key → record, null: gone */
        json_t *written;           /* slices: key → state that was written last */
        json_t *rosters;           /* while it is read what is kept: slices' names → the whole record */
        json_t *slots;             /* key → what a host wrote, which need not be written again */
        usec_t calm_until;         /* slices that are still forming are not written before */
        struct etcd_watch *watch;
        sd_event_source *timer;
        usec_t due; /* of the timer */
        char *after;
        int64_t page;
};

/* What a question belongs to: the leader may have stopped, and begun again, before its answer. */
struct turn {
        struct etcd_leader *l;
        unsigned number;
        struct turn *next;
};

/* A question of this turn. NULL: out of memory. */
struct turn *etcd_turn_new(struct etcd_leader *l);
/* Its answer came, or it was not asked. NULL: it is of an earlier turn. */
struct etcd_leader *etcd_turn_end(struct turn *t);
/* The timer, at the latest after this time. */
void etcd_leader_arm(struct etcd_leader *l, usec_t after);
/* … after the next wait of those who failed. */
void etcd_leader_again(struct etcd_leader *l);
usec_t etcd_leader_real_now(const struct etcd_leader *l);
/* Reads all anew, under the same fence. */
void etcd_leader_anew(struct etcd_leader *l);

/* --- etcd_decide.c ---------------------------------------------------------------------------------- */

/* A record that was kept, or a member's word, which is said to the planner by etcd_decide_begin(). */
void etcd_decide_load(struct etcd_leader *l, const Etcd__KeyValue *kv);
/* All was loaded: watches from there on, plans, writes. -ENOMEM. */
int etcd_decide_begin(struct etcd_leader *l);
/* Plans, and writes what is decided. */
void etcd_decide_step(struct etcd_leader *l);
