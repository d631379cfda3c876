/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Variables, each with its reason. What the user set stands; ours beside it is a conflict that is kept. */
#include <jansson.h>

#include "base.h"

struct environment_entry {
        char *assignment; /* "TPU_WORKER_ID=0" */
        char *reason; /* "worker-id from /etc/…:3" or "set by the user" */
        char *conflict; /* NULL, or "yours '3' kept, ours would be '0' (worker-id from …)" */
};
struct environment {
        struct environment_entry *entries;
        size_t n;
};
#define ENVIRONMENT_NULL ((struct environment){ 0 })

#define ENVIRONMENT_ASSIGNMENT_MAX                                                                          \
        (128 * 1024 - 1) /* the kernel's MAX_ARG_STRLEN: execve(2) refuses longer ones */

/* UTF-8 without control characters but tab and newline: what systemd passes on unchanged. */
bool environment_text_is_valid(const char *text);

/* Whether it is NAME=VALUE as a user may set it. -EINVAL, named in why without its value. */
int environment_check_assignment(const char *assignment, char why[static 256]);
/*
 * One of the user's; in place of an earlier one of theirs. -EINVAL, named in why without its value; -ENOMEM.
 */
int environment_add_user(struct environment *e, const char *assignment, char why[static 256]);
/* One of ours, unless the user has it: a different value of theirs is kept and said. -E2BIG, -ENOMEM. */
int environment_add(struct environment *e, const char *name, const char *value, const char *reason);
/* Puts value, which holds the user's and more, in place of theirs, or adds it. -E2BIG, -ENOMEM. */
int environment_extend(struct environment *e, const char *name, const char *value, const char *reason);
/* What is wrong with the user's value of a variable that is there; after what was said before. -ENOMEM. */
int environment_complain(struct environment *e, const char *name, const char *text);

/* The value; NULL when it is not set. */
const char *environment_get(const struct environment *e, const char *name);
/* [{"name", "value", "reason", "conflict" or null}, …]. New reference; NULL: no memory. */
json_t *environment_to_json(const struct environment *e);

void environment_clear(struct environment *e);
#define _cleanup_environment_ _cleanup_(environment_clear)
