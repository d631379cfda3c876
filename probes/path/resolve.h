/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Names to addresses without blocking the loop: a dozen short-lived workers ask the system's resolver
 * (getaddrinfo(3) may wait for seconds) and end by a timer of their own when time is up; nobody waits for
 * them. Addresses as text need no worker.
 */
#include <systemd/sd-event.h>

#include "lane.h"

struct resolve_item {
        const char *name; /* borrowed */
        union path_address address;
        union path_address other; /* the name's first address of the other family; sa_family is 0: none */
        int error; /* 0; -ENOENT: no such name; -ETIMEDOUT: no answer in time; -EAGAIN: the resolver is in
                      trouble */
};

struct resolver;
/*
 * Resolves n items (borrowed; filled in place). done is called once, from the loop, never from here. Workers
 * that are still at it when the resolver is freed end unheard, by timeout.
 */
int resolver_new(sd_event *e, struct resolve_item *items, size_t n, usec_t timeout,
                 void (*done)(void *userdata), void *userdata, struct resolver **ret);
struct resolver *resolver_free(struct resolver *r);
DEFINE_CLEANUP(struct resolver *, resolver_free)
