/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A host's part in a run: what to do next, given the run's record and what this host has of it. Pure. */
#include <jansson.h>

#include "base.h"

enum part_action {
        PART_NOTHING,
        PART_PREPARE, /* the preflight of this generation */
        PART_START,
        PART_STOP, /* with the intent's grace */
        _PART_ACTION_MAX,
};

enum part_state { /* the words of docs/registry.md, member, runs */
        PART_NONE, /* nothing is known of this run here */
        PART_PREPARING,
        PART_PREPARED,
        PART_REFUSED,
        PART_STARTING,
        PART_RUNNING,
        PART_EXITED,
        PART_STOPPED,
        _PART_STATE_MAX,
};
/* The cause of a part that was refused for good, and of one whose program could not be executed. */
#define PART_NOT_STARTED "not-started"
const char *part_state_name(enum part_state s);
int part_state_parse(const char *name, enum part_state *ret); /* -EINVAL */

struct member_part {
        uint64_t generation; /* that the state is of */
        enum part_state state;
};

/*
 * run: the record, NULL when it is gone (nothing is stopped for that: a registry that forgot is no order).
 * slice, worker: this host. mine: what it has. -EBADMSG for a record that cannot be understood: nothing is
 * done then.
 */
int part_decide(const json_t *run, const char *slice, unsigned worker, const struct member_part *mine,
                enum part_action *ret);
