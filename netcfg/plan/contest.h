/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who keeps changing a setting back? A setting that we repaired CONTEST_REPAIRS times within CONTEST_WINDOW
 * and that is wrong again is contested: it is left alone until nobody has changed it for CONTEST_QUIET.
 * A NIC that was deleted and made anew (another ifindex) is a new one, and so are the routes of one whose
 * link was lost and came back: that is no one's changing back. So is a route that was taken away and added
 * again (DHCP clients do), unless it went within CONTEST_REACTION of our repair, which is then what it went
 * for. Pure: time is an argument (boot clock).
 */
#include "op.h"

#define CONTEST_REPAIRS 2
#define CONTEST_WINDOW (60 * USEC_PER_SEC)
#define CONTEST_QUIET (3600 * USEC_PER_SEC)
#define CONTEST_REACTION (1 * USEC_PER_SEC)
#define CONTEST_MAX (INTENT_SYSCTLS_MAX + LINKS_MAX + ROUTES_MAX + NIC_SETTINGS_MAX)

struct contest_entry {
        enum op_kind kind;
        int index; /* of the NIC, 0: none */
        uint32_t carrier_changes;
        char subject[64];
        usec_t repaired[CONTEST_REPAIRS]; /* the latest last; 0: never */
        bool contested;
        usec_t changed; /* contested: when its value last changed … */
        char value[96]; /* … to this */
        int error;      /* contested: 0, or what contest_hold() was given */
};

struct contest {
        struct contest_entry *entries; /* freed by contest_clear */
        size_t n;
};
#define CONTEST_NULL ((struct contest) { 0 })

/* op is wanted now: whether it may be done. */
bool contest_allows(struct contest *c, const struct plan_op *op, usec_t now);
/* Which routes there are now: those that are gone start afresh, but for what is contested. Its links and
 * routes count. */
void contest_forget_routes(struct contest *c, const struct found *f, usec_t now);
/* op was done, as a repair of what had been right before. -ENOMEM. */
int contest_note_repair(struct contest *c, const struct plan_op *op, usec_t now);
/*
 * op was done and had to be taken back: as contested from now on, with the reason. -ENOMEM.
 */
int contest_hold(struct contest *c, const struct plan_op *op, int error, usec_t now);
/* Why it is not allowed: 0 (contested), or the error of contest_hold(). */
int contest_why(struct contest *c, const struct plan_op *op);
void contest_clear(struct contest *c);
