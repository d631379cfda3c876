/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From a RunRequest to a run: everything that can be wrong with what was asked is found here, before
 * anything is written or any unit is made. The run leaves with its user, directory, arguments, allocator and
 * whole environment frozen.
 */
#include "authority.h"
#include "host.h"
#include "kept_run.h"
#include "local.pb-c.h"
#include "problem.h"

struct request_result {
        struct kept_run *kept; /* name is still empty when the caller left it to us */
        char **conflicts; /* "NAME: yours 'x' kept, ours would be 'y'", NULL-terminated */
};

/* What is asked for by the table of keys, and by which intent: pure. p: what is wrong, then with a remedy.
 */
int request_take_spec(const Local__RunRequest *q, struct kept_run *kept, struct problem *p);
/* identity_config: --config or NULL. Returns 0, or -errno with p filled; nothing in ret is to be freed then.
 */
int request_build(const struct host *h, const char *identity_config, const Local__RunRequest *q,
                  const struct caller *c, struct request_result *ret, struct problem *p);
