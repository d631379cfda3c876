/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The environment that a run has, as it was frozen at its start, for its user and root:
 * KIND_ENVIRONMENT_REQUEST. */
#include "authority.h"
#include "frame.h"
#include "runs.h"

/*
 * Whether a variable looks like a secret by its name (secret_name.h). assignment:
 * "KEY=VALUE" or "KEY".
 */
bool variable_is_secret(const char *assignment);

/* Whether the run is another's than the caller's: root may see it, and that is recorded. */
bool job_environment_is_anothers(const struct runs *r, const struct caller *c, const char *name);
/* Answers peer; values that look like secrets never leave. -EACCES, -ENOENT, -ENOMEM with p: the answer is
 * the caller's then. */
int job_environment_answer(const struct runs *r, struct frame_peer *peer, const struct caller *c,
                           const char *name, struct problem *p);
