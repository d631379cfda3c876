/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A run in a container, out of its request: whether this host can make one and may, and the command line of
 * its engine (engine.h). Only of a spec that has an image.
 */
#include "kept_run.h"
#include "local.pb-c.h"
#include "problem.h"
#include "who.h"

/*
 * What can be said before anything of the run's is looked at: the engine, its grant. kept gets what the site
 * mounts, and the groups of its user. config: --config or NULL. -errno with p.
 */
int request_image_begin(const struct host *h, const char *config, const Local__RunRequest *q,
                        const struct target *t, struct kept_run *kept, struct problem *p);
/* In a process of root's: which image the name means. kept gets its id. -ESTALE with p: the hosts of the run
 * agreed on another; -errno with p. */
int request_image_look(const struct host *h, const Local__RunRequest *q, struct kept_run *kept,
                       struct problem *p);
/* The engine's command line, once kept has a name and all else. For strings_free(). -ENOMEM, -EINVAL. */
int request_image_argv(const struct host *h, const struct kept_run *kept, char ***ret);
