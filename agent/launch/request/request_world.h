/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The environment of a run, out of its request: who this host is, who runs together (the registry's word as
 * tpu-hostd hands it on), what the user set, the allocator. What does not fit together is found here, names
 * and addresses by environment_build().
 */
#include "environment.h"
#include "kept_run.h"
#include "local.pb-c.h"
#include "problem.h"

/* Pure; all in *ret is the request's. -EINVAL with p. Only of a world that has slices. */
int request_world_gang(const Local__RunRequest *q, struct environment_gang *ret, struct problem *p);
/* Pure. Adds what the caller knows to what the static file says. -EINVAL with p, -ENOMEM. */
int request_world_facts(const Local__World *w, struct identity *i, struct problem *p);

/* Freezes the whole environment, and what the allocator became, into kept; identity gets what the caller
 * knows. ret_conflicts: struct request_result. -errno with p. */
int request_environment(const struct host *h, struct identity *identity, const Local__RunRequest *q,
                        struct kept_run *kept, char ***ret_conflicts, struct problem *p);
