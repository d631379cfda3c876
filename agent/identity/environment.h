/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The environment of a run: complete and frozen, derived from the identity for one framework. What the user set is never
 * overridden; a difference is kept as a conflict. Pure.
 */
#include "identity.h"

enum framework {
        FRAMEWORK_PLAIN,
        FRAMEWORK_JAX,
        _FRAMEWORK_MAX,
};
const char *framework_name(enum framework f);
/* -EINVAL. */
int framework_parse(const char *name, enum framework *ret);

struct environment_entry {
        char *assignment; /* "TPU_WORKER_ID=0" */
        char *reason;     /* "worker-id from /etc/…:3" or "set by the user" */
        char *conflict;   /* NULL, or "yours '3' kept, ours would be '0' (worker-id from …)" */
};
struct environment {
        struct environment_entry *entries;
        size_t n;
};
#define ENVIRONMENT_NULL ((struct environment) { 0 })

/*
 * user: n "KEY=VALUE" that the user set. Returns 0; -EINVAL for an assignment that is none (its text in why); -ENODATA when
 * the framework needs a field that identity does not have (named in why, with the remedy); -ENOMEM.
 */
int environment_build(const struct identity *i, enum framework f, const char *const *user, size_t n_user,
                      struct environment *ret, char why[static 256]);
void environment_clear(struct environment *e);
#define _cleanup_environment_ _cleanup_(environment_clear)
