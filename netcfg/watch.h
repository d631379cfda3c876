/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reports, in an sd-event loop, that something changed in this network namespace that the intent speaks of:
 * a link or its queueing discipline; where they are wanted, a route, a feature or private flag of a NIC, a
 * reverse-path filter, or what source routing needs (routes, rules, addresses); or that someone wrote one of
 * the wanted sysctls.
 * What changed is not reported.
 * The caller reads everything again, so a lost notification (the kernel's queue overran) is only one more
 * change.
 *
 * Not reported are features where this kernel does not report them, and what inotify does not see of
 * sysctls: writes through another mount of procfs than the host's, and changes by the kernel itself. Reading
 * again finds those. Where the kernel refuses to report (no inotify instance is left), the daemon goes on
 * with reading again, and tries once more each time.
 */
#include <systemd/sd-event.h>

#include "host.h"
#include "intent.h"

struct net_watch;
int net_watch_new(sd_event *e, const struct host *h, const struct intent *i, void (*changed)(void *userdata),
              void *userdata, struct net_watch **ret);
struct net_watch *net_watch_free(struct net_watch *w);
DEFINE_CLEANUP(struct net_watch *, net_watch_free)
/* Opens what could not be opened before. */
void net_watch_mend(struct net_watch *w);
/* What is not reported and why, "sysctl writes: Too many open files"; empty: all is. */
const char *net_watch_deaf(const struct net_watch *w);
/* How often the kernel's queue overran. */
unsigned net_watch_overruns(const struct net_watch *w);
