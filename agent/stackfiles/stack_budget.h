/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How much is reported of a folder that anybody may write to. What is reported is an event that outlives all
 * else in a spool, and whoever may write to the folder causes it. A user gets at most as much as it leaves
 * to the others, so that there is always some for one who comes later.
 */
#include <sys/types.h>

#include "base.h"

#define STACK_BUDGET_BYTES (8 * 1024 * 1024) /* at once, of all users */
#define STACK_BUDGET_HOUR (2 * 1024 * 1024)  /* that come back an hour */
#define STACK_EVENT_BYTES 512                /* what one costs beside its text */
#define STACK_LOOK_SNAPSHOTS_MAX 32          /* of a user, between two stack_budget_begin() */
#define STACK_OWNERS_MAX 16                  /* beyond, they are one user */

struct stack_budget {
        struct stack_owner {
                uid_t uid;
                unsigned told;  /* since stack_budget_begin() */
                uint64_t spent; /* bytes */
        } owners[STACK_OWNERS_MAX];
        size_t n;
        usec_t at; /* boot clock */
};

void stack_budget_begin(struct stack_budget *b);
/* Whether there is room for one of so many bytes, of this user, now; then it is taken. */
bool stack_budget_take(struct stack_budget *b, usec_t now, uid_t uid, size_t bytes);
