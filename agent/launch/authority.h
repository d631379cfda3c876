/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who may do what: decided on the caller's own credentials, as the kernel tells them. Pure but for
 * authority_identify().
 *
 *   root                      everything
 *   members of group tpu-run  start runs as themselves; stop and capture runs of their own
 *   the user tpu-hostd        is the principal "remote": may ask for a capture of any run (frames of stacks
 * only) anyone                    may list runs
 */
#include <sys/socket.h>
#include <sys/types.h>

#include "base.h"

enum action {
        ACTION_LIST,
        ACTION_START,
        ACTION_STOP,
        ACTION_CAPTURE,
        _ACTION_MAX,
};

struct caller {
        uid_t uid;
        char name[64]; /* of the user, or its number */
        bool remote; /* the user tpu-hostd */
        bool member; /* of the group tpu-run */
};

struct refusal {
        char reason[256], remedy[256];
};

/* Looks the peer up in the user database (its own group, and the supplementary ones by getgrouplist(3)). */
void authority_identify(const struct ucred *peer, struct caller *ret);

/*
 * owner: the user whose run it is, or is to be. Returns 0, or -EACCES with *ret filled.
 */
int authority_decide(const struct caller *c, enum action a, uid_t owner, struct refusal *ret);
