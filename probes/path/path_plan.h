/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From peers as words to paths with addresses: which NIC, from which address, to which, and whether the
 * kernel would really take that NIC. What cannot be tried becomes a finding.
 */
#include "finding.h"
#include "intent.h"
#include "lane.h"
#include "links.h"
#include "peers.h"
#include "resolve.h"

struct path {
        char name[PATH_NAME_MAX]; /* what is resolved: "h3", "h3-eth1", "10.10.1.13" */
        char nic[IF_NAMESIZE]; /* empty until the route of a plain name is known */
        bool derived; /* NAME-NIC, made from a plain NAME: need not exist */
        size_t origin; /* index of the plain NAME's path; its own for others */
        bool self; /* a plain name that is this host's own */
        bool usable; /* from, to, mtu and nic are set: to be proven */
        union path_address from, to;
        union path_address other; /* the name's address of the other family, for a NIC that has that one only */
        uint32_t mtu;
};

struct path_plan {
        struct path *paths;
        struct resolve_item *items; /* beside paths, for the resolver */
        size_t n;
        const struct intent *intent; /* borrowed: which NICs are data-centre NICs */
};
#define PATH_PLAN_NULL ((struct path_plan){ 0 })
void path_plan_clear(struct path_plan *p);

/* Every path that may exist, names not yet resolved. -ENOMEM, -E2BIG. */
int path_plan_make(const struct link_table *links, const struct intent *intent,
                   const struct path_peers *peers, struct path_plan *ret);
/* The names are resolved: asks the kernel for routes and marks what is usable; findings for what is not. */
int path_plan_route(struct path_plan *p, const struct link_table *links, bool asked_for,
                    struct finding_list *findings);
