/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Rights (authority.h), asked about the runs that are there; and the record of what was asked. */
#include "authority.h"
#include "runs.h"

/* Finds the run for an action and asks whether this caller may do it: 0, -EACCES or -ENOENT with p. */
int rights_check(struct runs *r, const struct caller *c, enum action action, const char *name,
                 struct problem *p);
/* A run takes the place and the name of the one before, which may be another user's: 0, -EACCES, -EEXIST. */
int rights_check_replacing(struct runs *r, const struct caller *c, const struct kept_run *kept,
                           struct problem *p);

/* What was asked for, for its record. */
struct asked {
        enum action action;
        char name[RUN_NAME_MAX + 1], detail[AUDIT_DETAIL_MAX];
};
void asked_note(struct asked *k, enum action action, const char *name, const char *detail);

/* Refusals cost the caller nothing: so many of a user and minute have a record of their own, and the others
 * are counted in the next one. */
#define REFUSALS_A_MINUTE 10
#define REFUSAL_USERS 16 /* beyond, users share one */
struct refusals {
        struct refusals_of {
                uid_t uid;
                usec_t since;
                unsigned n, left_out;
        } of[REFUSAL_USERS];
};
/* Records an acting call, and a reader's that was refused. now: boot clock. */
void asked_record(struct refusals *all, usec_t now, const struct caller *c, const struct asked *k,
                  int result, const char *reason);
