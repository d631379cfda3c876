/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The environment of a run: complete and frozen, derived from the identity for one framework. What the user
 * set is never overridden; a difference is kept as a conflict. Pure.
 *
 * plain: what is known of TPU_NAME, TPU_ACCELERATOR_TYPE, TPU_TOPOLOGY, TPU_WORKER_ID, TPU_WORKER_HOSTNAMES.
 * No framework's rendezvous is set. jax (one process per host): the same, all required, and the bounds of
 * chips and hosts, TPU_SKIP_MDS_QUERY=1 and JAX_PLATFORMS=tpu,cpu. TPU_SKIP_MDS_QUERY turns JAX from the
 * metadata server to these variables, which is why none of them may be missing. Its readers take any value
 * of it for set, "0" and "" included. Source: cloud_tpu_cluster.py of JAX, torch_xla's tpu.py, and the
 * public GKE device plugin.
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
        char *reason; /* "worker-id from /etc/…:3" or "set by the user" */
        char *conflict; /* NULL, or "yours '3' kept, ours would be '0' (worker-id from …)" */
};
struct environment {
        struct environment_entry *entries;
        size_t n;
};
#define ENVIRONMENT_NULL ((struct environment){ 0 })

#define ENVIRONMENT_USER_MAX 4096
#define ENVIRONMENT_ASSIGNMENT_MAX                                                                          \
        (128 * 1024 - 1) /* the kernel's MAX_ARG_STRLEN: execve(2) refuses longer ones */

/* UTF-8 without control characters but tab and newline: what systemd passes on unchanged. */
bool environment_text_is_valid(const char *text);

/*
 * user: n "KEY=VALUE" that the user set; of two for one name the later counts. Returns 0; -EINVAL for an
 * assignment that is none (named in why, without its value); -ENODATA when the framework needs a field that
 * identity does not have (named in why, with the remedy); -ENOMEM.
 */
int environment_build(const struct identity *i, enum framework f, const char *const *user, size_t n_user,
                      struct environment *ret, char why[static 256]);
void environment_clear(struct environment *e);
#define _cleanup_environment_ _cleanup_(environment_clear)
