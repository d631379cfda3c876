/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From a RunRequest to a run: everything that can be wrong with what was asked is found here, before
 * anything is written or any unit is made. The run leaves with its user, directory, arguments, allocator and
 * whole environment frozen.
 */
#include "host.h"
#include "kept_run.h"
#include "local.pb-c.h"
#include "problem.h"
#include "who.h"

struct request_result {
        struct kept_run *kept; /* name is still empty when the caller left it to us */
        char **conflicts; /* "NAME: yours 'x' kept, ours would be 'y'", NULL-terminated */
};

/* Whether systemd is the first process: without it no run is started. */
bool request_has_systemd(const struct host *h);
/* What is asked for by the table of keys, and by which intent: pure. p: what is wrong, then with a remedy.
 */
int request_take_spec(const Local__RunRequest *q, struct kept_run *kept, struct problem *p);
/*
 * What can be said without a look at the user's own paths: whether the caller may, who the run's user is,
 * what this host is. identity_config: --config or NULL. Returns 0, or -errno with p filled; nothing in ret
 * is to be freed then.
 */
int request_begin(const struct host *h, const char *identity_config, const Local__RunRequest *q,
                  const struct who *w, struct request_result *ret, struct problem *p);
/* For struct child_work: the rest, as the run's user, in a process of its own. data: struct request_look. */
struct request_look {
        const struct host *host;
        const char *identity_config;
        const Local__RunRequest *request;
        const struct target *target;
        struct kept_run *kept;
};
#define REQUEST_LOOKED_MAX (3 * 1024 * 1024) /* the environment, and what of it was the user's */
int request_look(int fd, const void *data);
/* Takes what it wrote into ret. -errno with p. */
int request_finish(const char *answer, size_t len, struct request_result *ret, struct problem *p);
void request_result_clear(struct request_result *r);
