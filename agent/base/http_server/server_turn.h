/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* libmicrohttpd (MHD_USE_EPOLL, no thread of its own) in an sd-event loop. */
#include <microhttpd.h>
#include <systemd/sd-event.h>

#include "base.h"

/*
 * Lets a daemon do all that can be done now, and sets timer (on any clock) to when it wants to be called
 * without traffic. -errno: the timer cannot be set.
 */
int server_turn(struct MHD_Daemon *d, sd_event_source *timer);
