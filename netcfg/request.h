/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One rtnetlink request that the kernel acknowledges. */
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include "base.h"

DEFINE_CLEANUP(struct nl_msg *, nlmsg_free)

/* Sends m (NLM_F_ACK) on a socket of its own. Returns 0 or the kernel's own -errno. */
int request_do(struct nl_msg *m);
