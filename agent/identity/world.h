/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who runs together, as one view of the two sources of it: the hosts of the run that the registry gave, else
 * the slice of the identity alone. Pure.
 */
#include "environment.h"

#define WORLD_REASON_MAX 256
#define WORLD_ALONE      "the slice has one host"

struct world {
        size_t n_slices, slice; /* index */
        size_t n_hosts, worker; /* of this slice */
        size_t rank, size; /* over all slices */
        bool known; /* which worker this host is, and of how many; else the sizes are 1 and the indexes 0 */
        bool alone; /* a slice of one host, by the identity */
        char *hosts; /* comma list of this slice, in the order of worker ids; NULL: not known */
        char coordinator[256]; /* worker 0 of slice 0, or who was named; empty: not known */
        uint16_t port; /* of the coordinator; the framework's when nobody chose one; 0: it has none */
        const char *slice_name; /* borrowed; NULL: not known */
        /* why slice_name, worker, hosts, slice and coordinator are so */
        char name_reason[WORLD_REASON_MAX], worker_reason[WORLD_REASON_MAX], hosts_reason[WORLD_REASON_MAX];
        char slice_reason[WORLD_REASON_MAX], coordinator_reason[WORLD_REASON_MAX];
};
#define WORLD_NULL ((struct world){ .n_slices = 1, .n_hosts = 1, .size = 1 })

/* framework_port: where the coordinator listens when nobody chose a port. -EINVAL: the hosts of the run do
 * not fit together (why); -ENOMEM. */
int world_of(const struct identity *i, const struct environment_options *o, uint16_t framework_port,
             struct world *ret, char why[static ENVIRONMENT_WHY_MAX]);
void world_clear(struct world *w);
#define _cleanup_world_    _cleanup_(world_clear)

/* "10.0.0.1:8482", "[fd00::1]:8482" */
#define WORLD_ENDPOINT_MAX 280
const char *world_endpoint(const char *host, uint16_t port, char buf[static WORLD_ENDPOINT_MAX]);
