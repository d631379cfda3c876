/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The constants of health (health.h): those of every check, and the site's own for some. Pure.
 */
#include "base.h"
#include "health.h"

#define POLICIES_MAX 32

/* Check= of [Health]: what differs for one check ("nic.mtu") or one group of them ("nic"). */
struct check_policy {
        char check[32];
        struct health_policy policy; /* only what has says is meant */
        unsigned has;                /* bits of policies.c */
};

struct check_policies {
        struct check_policy items[POLICIES_MAX];
        size_t n;
};

/*
 * A config_parse_t (config.h): adds "NAME KEY=VALUE…" with the keys of [Health] to dest, a struct
 * check_policies; what is said later of the same name and key wins; an empty value empties the list.
 */
int policies_parse(const char *value, void *dest, char why[static 96]);

/* The constants of one check: all, then those of its group, then its own. */
struct health_policy policies_for(const struct check_policies *p, const struct health_policy *all,
                                  const char *check);

/* Bounds of the single keys: FailAfter and HealAfter from 1, spans. FlapAfter has HEALTH_FLAPS_MAX. */
#define POLICY_COUNT_MAX 1000
#define POLICY_SPAN_MAX (24 * 3600 * USEC_PER_SEC)
