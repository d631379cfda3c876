/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A container's network namespace, for a one-shot of root's. After netns_enter() rtnetlink, ethtool and
 * /proc/sys/net are that namespace's: Linux shows /proc/sys/net of the task that opens a file in it,
 * whatever was mounted or opened before. Every other file is still the host's: the mount namespace stays.
 *
 * What belongs to that namespace is kept apart from the host's, in a directory of root's below
 * /run/tpu-netcfg: "netns-" and its cookie, which no other namespace of this boot ever has (from kernel 5.14
 * on), else device and inode of the namespace, which a later one may get again.
 */
#include "host.h"
#include "intent.h"
#include "links.h"
#include "paths.h"

struct netns {
        const char *path;        /* as given, borrowed; NULL: we are in the host's own */
        char runtime[64];        /* where originals and lock are: /run/tpu-netcfg, or a directory in it */
        struct link_table links; /* the host's, as they were before */
        uint32_t carried;        /* the smallest MTU of the host's data-centre NICs, 0: it has none */
        char carried_by[IF_NAMESIZE];
        int host_nsid; /* what the namespace calls the host's own; -1: it has no name for it */
};
#define NETNS_NULL ((struct netns) { .runtime = PATH_NETCFG_RUNTIME, .host_nsid = -1 })
void netns_clear(struct netns *n);

/*
 * Enters the namespace at path (/run/netns/NAME, /proc/PID/ns/net; borrowed) for good. i is what is wanted
 * of the host; Nics= and IgnoreNics= name the host's NICs and are taken out of it. Returns 0, or -errno with
 * what is wrong logged; no setting has changed then.
 */
int netns_enter(struct host *h, struct intent *i, const char *path, struct netns *ret);

/*
 * Fills in carried_mtu and carried_by of the NICs in t that the host makes: min(other end or lower device,
 * that one's bridge, the host's data-centre NICs). Without effect in the host's own namespace.
 */
void netns_bound_links(const struct netns *n, struct link_table *t);
