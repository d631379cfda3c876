/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * All hosts as people are shown them (docs/api.md, hosts): members of the registry as they say of themselves
 * and by their figures, those that it misses, and those that only push telemetry.
 */
#include "api.h"

struct fleet_filter {
        const char *name, *slice, *state; /* NULL: any */
};
/* A list of objects, sorted by slice (none last), worker, name. -ENOMEM, the store's. */
int fleet_list(const struct api *a, const struct fleet_filter *f, json_t **ret);

struct fleet_sum {
        size_t hosts, ready, degraded, unfit, unknown, silent; /* silent ones are in none of the four */
        double oldest; /* seconds since the one that was heard of longest ago */
};
/* Counts a host of such a list. */
void fleet_sum_add(struct fleet_sum *sum, const json_t *host);
