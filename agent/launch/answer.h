/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The replies to callers, made from the runs: one function a reply. Those that fail return -errno with
 * p filled, and have sent nothing.
 */
#include "authority.h"
#include "frame.h"
#include "local.pb-c.h"
#include "owners.h"
#include "runs.h"

/* Who is gone needs no answer. */
void answer(struct frame_peer *p, uint16_t kind, const ProtobufCMessage *m);
void answer_problem(struct frame_peer *peer, int error, const struct problem *p);
/* conflicts: NULL-terminated, or NULL. */
void answer_run(struct frame_peer *peer, const struct kept_run *kept, bool already, char **conflicts);
int answer_owners(const struct device_owners *o, struct frame_peer *peer, struct problem *p);
/* -errno of a capture that failed, too. */
int answer_capture(struct frame_peer *peer, const struct kept_run *kept, const struct capture_result *r,
                   struct problem *p);

/* One run or all: a RunListReply, valid until the next turn of the loop, for it borrows from the runs. */
#define RUN_LIST_MAX (RUNS_KEPT + 2 * RUNS_ACTIVE_MAX)
struct run_list {
        Local__RunListReply reply;
        Local__Run *runs[RUN_LIST_MAX];
};
/* name: of the run, or "" for all. uid: who asks. -ENOENT when there is no such run for that user, -ENOMEM.
 * To be cleared in any case. */
int run_list_make(struct runs *r, const char *name, uid_t uid, struct run_list *ret);
void run_list_clear(struct run_list *l);

/* The environment that a run has, as it was frozen at its start, for its user and root. Values that look
 * like secrets never leave. -EACCES, -ENOENT, -ENOMEM. */
int answer_environment(const struct runs *r, struct frame_peer *peer, const struct caller *c,
                       const char *name, struct problem *p);
/* Whether the run is another's than the caller's: root may see it, and that is recorded. */
bool environment_is_anothers(const struct runs *r, const struct caller *c, const char *name);
/* Whether a variable ("KEY=VALUE" or "KEY") looks like a secret by its name (texts.h). */
bool variable_is_secret(const char *assignment);
