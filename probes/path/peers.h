/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who is to be tried, as words. A word is NAME (a host: its own name or address, tried from the NIC that the
 * kernel's route takes; each further data-centre NIC X of this host is tried towards NAME-X, as in h3-eth1,
 * where that name is known) or NIC=ADDRESS (one address or name, tried from that NIC). Words come from
 * --peer, from [Path] Peers= of path.conf and path.conf.d/ (may be given many times; an empty value empties
 * the list), and from the identity's worker host names.
 */
#include <net/if.h>

#include "base.h"
#include "host.h"

#define PATH_PEERS_MAX 4096
#define PATH_NAME_MAX 254

struct path_peer {
        char nic[IF_NAMESIZE]; /* empty: as the route goes, and NAME-X for the others */
        char name[PATH_NAME_MAX];
};

struct path_peers {
        struct path_peer *items;
        size_t n;
};
#define PATH_PEERS_NULL ((struct path_peers){ 0 })
void path_peers_clear(struct path_peers *p);
#define _cleanup_path_peers_ _cleanup_(path_peers_clear)

/* Adds a comma list of words; what is there already is not added twice. -EINVAL and -E2BIG with one line in
 * why. */
int path_peers_add(struct path_peers *p, const char *list, char why[static 96]);
int path_peers_add_one(struct path_peers *p, const struct path_peer *one, char why[static 96]);
/* Adds what the configuration names. Bad values warn with file and line. config_file: --config, or NULL. */
int path_peers_load(const struct host *h, const char *config_file, struct path_peers *p);
