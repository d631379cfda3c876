/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which image of this host a name means, by the lists that the engines keep: podman's images.json
 * (containers/storage) and docker's repositories.json. Files are read, and no engine is asked: tpu-launchd
 * has neither the rights nor the directories in which podman would run. Nothing is fetched: what runs on a
 * host is what its root brought there.
 *
 * A name without a tag means "latest". podman's names have a registry: one that is given without is looked
 * for as it is, then in localhost, then in docker.io.
 */
#include "engine.h"
#include "host.h"
#include "kept_run.h"
#include "local.pb-c.h"
#include "problem.h"
#include "who.h"

/* Its id. -ENOENT with p: there is none of this name; -errno with p. */
int image_find(const struct host *h, enum engine e, const char *name, char ret[static ENGINE_ID_SIZE],
               struct problem *p);

/* Pure. The same out of the text of such a list: -ENOENT; -EBADMSG: it is no such list. */
int image_of_list(enum engine e, const char *text, size_t len, const char *name,
                  char ret[static ENGINE_ID_SIZE]);
/* Pure. podman's directory out of the text of storage.conf (graphroot=). False: it names none. */
bool image_store(const char *text, char *ret, size_t size);

/*
 * A run in a container, out of its request: whether this host can make one and may, and the command line of
 * its engine (engine.h). Only of a spec that has an image.
 */

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
