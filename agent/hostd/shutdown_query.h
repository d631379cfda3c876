/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether the machine is being shut down, and not this daemon alone stopped: systemd is asked for the property SystemState of
 * its manager, which is "stopping" while shutdown.target is active or has a job (org.freedesktop.systemd1(5),
 * systemctl(1) is-system-running), a reboot included. Not logind's PrepareForShutdown: it is heard by who listens before,
 * and not every machine has logind. Over the system bus, in the loop.
 */
#include <systemd/sd-event.h>

#include "base.h"

struct shutdown_query;
/*
 * done is called once, from the loop, within a second: false also where nobody answers. -errno: there is no bus, or no
 * memory; done is not called then.
 */
int shutdown_query_new(sd_event *e, void (*done)(bool shutting_down, void *userdata), void *userdata,
                       struct shutdown_query **ret);
struct shutdown_query *shutdown_query_free(struct shutdown_query *q);
DEFINE_CLEANUP(struct shutdown_query *, shutdown_query_free)
