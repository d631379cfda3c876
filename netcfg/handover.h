/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * NetworkMtu frames: what tpu-hostd learned about the networks is taken over, kept for this boot in
 * /run/tpu-netcfg/network-mtu, and planned with at once.
 */
#include "frame.h"
#include "pass.h"

/* The user whose tpu-hostd may hand over, from /etc/passwd alone (no name service is asked: there may be no
 * network yet). Root always may. (uid_t) -1: there is no such user. */
uid_t handover_user(const struct host *h);
bool handover_permits(uid_t uid, uid_t hostd);

/*
 * Takes the frame's entries into n->intent, saves them, and answers p with what was taken. Returns 1 when
 * the plan may have changed, 0 when not, or -errno of the answer; -errno with ret_why set: the frame
 * is refused for that reason, and p is not answered yet.
 */
int handover_take(struct netcfg *n, struct frame_peer *p, const struct frame *f, const char **ret_why);
