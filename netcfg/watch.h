/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Tells that some link, feature or private flag of a NIC, or route, or what source routing needs (rules,
 * addresses), where they are asked for, of this network namespace changed, in an sd-event loop. What changed
 * is not told: who is told reads everything anew, so that a lost notification (the kernel's queue overran) is
 * only one more change.
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "host.h"

struct watch;
struct watch_what {
        const struct host *host;
        bool routes, ethtool;
        bool sources; /* routes, rules and addresses */
};
/* Where this kernel tells nothing of features and private flags, nothing is heard of them. */
int watch_new(sd_event *e, const struct watch_what *what, void (*changed)(void *userdata), void *userdata,
              struct watch **ret);
struct watch *watch_free(struct watch *w);
DEFINE_CLEANUP(struct watch *, watch_free)
/* How often the kernel's queue overran. */
unsigned watch_overruns(const struct watch *w);
