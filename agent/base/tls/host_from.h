/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which host a certificate is, as the site says (HostFrom=). Words with blanks between, of two kinds: the
 * path of a file that maps names to hosts (name_list.h), and patterns of names with {host} in them. "*" at
 * the beginning of a pattern stands for anything. Files go before patterns, and patterns in their order:
 *
 *   spiffe://site.example/host/{host}   dns:{host}.hosts.site.example   /etc/tpu-hostd/hosts
 *
 * Where VMs share an identity, an instance token besides has a name of its own, "gce:PROJECT/ZONE/VM". It
 * goes by the files, and by the patterns that begin with "gce:" alone: "*" is not for it, for anybody's
 * project may have a VM of any name.
 */
#include "base.h"
#include "name_list.h"

#define HOST_FROM_MAX     64 /* bytes of a host's name with its end, as docs/registry.md has it */
#define HOST_FROM_DEFAULT "*/{host}" /* what is behind the last slash of a URI */

struct host_from;
/* Nothing is read yet. -EINVAL with why: a pattern without {host}; -E2BIG, -ENOMEM. */
int host_from_new(const char *words, struct host_from **ret, char why[static NAME_LIST_WHY_MAX]);
struct host_from *host_from_free(struct host_from *h);
DEFINE_CLEANUP(struct host_from *, host_from_free)
/* As name_list_look(). */
bool host_from_look(struct host_from *h, char why[static NAME_LIST_WHY_MAX]);

/* The host that a certificate with this name is. False: this name does not say. */
bool host_from_map(const struct host_from *h, const char *name, char ret[static HOST_FROM_MAX]);
bool host_from_pattern(const struct host_from *h, size_t i, const char *name,
                       char ret[static HOST_FROM_MAX]);
size_t host_from_patterns(const struct host_from *h);

#define HOST_FROM_TOKEN "gce:"
/* The host that a VM with this name is, by its token; and whether any could be: there is a pattern for one,
 * or a file. */
bool host_from_token(const struct host_from *h, const char *name, char ret[static HOST_FROM_MAX]);
bool host_from_takes_tokens(const struct host_from *h);
bool host_from_wants_tokens(const struct host_from *h); /* there is a pattern for one */
