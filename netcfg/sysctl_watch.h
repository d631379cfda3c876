/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Tells that someone wrote one of the wanted sysctls, in an sd-event loop, by inotify. That sees writes
 * through the same mount of procfs only (the host's): what another mount's writers do, and what the kernel
 * itself changes, is found by reading again.
 */
#include <systemd/sd-event.h>

#include "host.h"
#include "intent.h"

struct sysctl_watch;
/* Sysctls that this kernel has not are passed over. */
int sysctl_watch_new(sd_event *e, const struct host *h, const struct intent *i,
                     void (*changed)(void *userdata), void *userdata, struct sysctl_watch **ret);
struct sysctl_watch *sysctl_watch_free(struct sysctl_watch *w);
DEFINE_CLEANUP(struct sysctl_watch *, sysctl_watch_free)
