/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names to addresses without blocking the loop, in short-lived workers that are killed when time is up
 * (getaddrinfo(3) may wait for seconds). Addresses as text need no worker. done is called once, from the
 * loop, never from here.
 */
#include <systemd/sd-event.h>

#include "path_plan.h"

struct resolver;
int resolver_new(sd_event *e, struct path_plan *plan, usec_t timeout, void (*done)(void *userdata),
                 void *userdata, struct resolver **ret);
struct resolver *resolver_free(struct resolver *r);
DEFINE_CLEANUP(struct resolver *, resolver_free)
