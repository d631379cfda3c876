/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who keeps changing a setting back? A setting that we repaired CONTEST_REPAIRS times within CONTEST_WINDOW
 * and that is wrong again is contested. It is left alone until nobody has changed it for CONTEST_QUIET, or
 * until tpu-netcfg --once has set it. Two trials tell whether the other side still answers: one
 * CONTEST_TRIAL after it began, one CONTEST_WINDOW before the quiet time is over.
 *
 * A NIC that was made anew has no history. A route whose link was lost and came back begins afresh, and so
 * does one that was taken away and added again, as DHCP clients do; but for one that went within
 * CONTEST_REACTION of our repair. What nothing asks for any more has no history. A rule of ours that made
 * room for somebody else's was changed by him. Pure: time is an argument (boot clock).
 */
#include "contested.h"
#include "op.h"

#define CONTEST_REPAIRS 2
#define CONTEST_WINDOW (60 * USEC_PER_SEC)
#define CONTEST_QUIET (600 * USEC_PER_SEC)
#define CONTEST_TRIAL (15 * USEC_PER_SEC)
#define CONTEST_HELD (3600 * USEC_PER_SEC)
#define CONTEST_REACTION (1 * USEC_PER_SEC)
#define CONTEST_MAX (INTENT_SYSCTLS_MAX + LINKS_MAX + ROUTES_MAX + NIC_SETTINGS_MAX)

struct contest_entry {
        enum op_kind kind;
        int index; /* of the NIC, 0: none */
        uint32_t carrier_changes;
        char subject[64], nic[IF_NAMESIZE];
        struct rule rule;                 /* of OP_RULE */
        usec_t repaired[CONTEST_REPAIRS]; /* the latest last; 0: never */
        bool yielded; /* our rule made room for somebody else's, and has not been set again */

        usec_t since;   /* contested: since when; 0: it is not */
        usec_t changed; /* … when it last changed */
        usec_t trial;   /* … and when it was last tried; 0: never */
        unsigned times; /* … how often others changed it */
        char value[96], ours[96], theirs[96]; /* … as it was last seen; as wanted; as others set it last */
        int error;         /* … 0, or what contest_hold() was given */
        const char *ended; /* it has ended, and why: contest_sweep() takes it away */
};

struct contest {
        struct contest_entry *entries; /* freed by contest_clear */
        size_t n;
};
#define CONTEST_NULL ((struct contest) { 0 })

enum contest_answer {
        CONTEST_REPAIR, /* it may be done */
        CONTEST_BEGINS, /* it is contested from now on */
        CONTEST_LEFT,   /* it is contested */
};

/* Once in each pass, before all others: what is wrong now, what source routing wants, and what there is. */
void contest_look(struct contest *c, const struct plan *wrong, const struct plan *sources,
                  const struct found *f, usec_t now);
/* Whether op, which is wanted now, may be done. */
enum contest_answer contest_judge(struct contest *c, const struct plan_op *op, usec_t now);
/* op was done, as a repair of what had been right before, or as a trial. -ENOMEM. */
int contest_note_repair(struct contest *c, const struct plan_op *op, usec_t now);
/* op took our rule away because of somebody else's. -ENOMEM. */
int contest_note_yield(struct contest *c, const struct plan_op *op);
bool contest_yielded(struct contest *c, const struct plan_op *op);
/* op was done and had to be taken back: left alone for CONTEST_HELD, with the reason. -ENOMEM. */
int contest_hold(struct contest *c, const struct plan_op *op, int error, usec_t now);
/* Why it is left: 0 (contested), or the error of contest_hold(). */
int contest_why(struct contest *c, const struct plan_op *op);
/* What --once took out of the list has ended. */
void contest_follow(struct contest *c, const struct contested_list *l);
void contest_list(const struct contest *c, struct contested_list *ret);
/* How long until the first trial of one is due, at most wait. */
usec_t contest_wait(const struct contest *c, usec_t now, usec_t wait);
/* Takes away what has ended, and reports each contest among it. */
void contest_sweep(struct contest *c, void (*ended)(const struct contest_entry *e, void *userdata),
                   void *userdata);
const struct contest_entry *contest_entry_of(struct contest *c, const struct plan_op *op);
void contest_clear(struct contest *c);
