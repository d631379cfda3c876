/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From peers as words to paths with addresses: which NIC, from which address, to which, and whether the
 * kernel would really take that NIC. What cannot be tried becomes a finding.
 */
#include "intent.h"
#include "links.h"
#include "path_report.h"

struct path {
        /* peer: the name that is resolved, "h3", "h3-eth1"; nic: empty until a plain name's route is
         * known */
        struct path_result what;
        union path_address other; /* the name's first address of the other family; sa_family is 0: none */
        int error; /* -ENOENT: no such name; -ETIMEDOUT: no answer in time; -EAGAIN: the resolver failed */
        bool derived;  /* NAME-NIC, made from a plain NAME: need not exist */
        size_t origin; /* index of the plain NAME's path; its own for others */
        bool self;     /* a plain name that is this host's own */
        bool usable;   /* nic, from, to and mtu are set: to be tried */
};

struct path_plan {
        struct path *paths;
        size_t n;
        const struct intent *intent; /* borrowed: which NICs are data-centre NICs */
};
#define PATH_PLAN_NULL ((struct path_plan){ 0 })
void path_plan_clear(struct path_plan *p);

/* Every path that may exist, names not yet resolved. -ENOMEM, -E2BIG. */
int path_plan_make(const struct link_table *links, const struct intent *intent,
                   const struct path_peers *peers, struct path_plan *ret);

/* The names are resolved: asks the kernel for routes. Only what can be tried stays; findings for what
 * cannot. */
int path_plan_route(struct path_plan *p, const struct host *h, const struct link_table *links,
                    bool asked_for, struct finding_list *findings);
