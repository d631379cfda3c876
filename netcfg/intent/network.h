/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The MTU of the network that each NIC is in, as tpu-hostd hands it over from the metadata server, and the
 * file that keeps it for the rest of this boot, written by tpu-netcfg and read by all:
 *
 *   tpu-netcfg-network-mtu 1
 *   boot BOOT_ID
 *   42:01:0a:80:00:02 8896 metadata
 *
 * The static file ([Network] Mtu=) wins over all of it.
 */
#include "host.h"
#include "wanted.h"

#define INTENT_NETWORKS_FILE "network-mtu" /* in /run/tpu-netcfg */
#define INTENT_NETWORKS_TEXT_MAX 4096

/* What the network of this NIC carries; 0: not known. ret_source (may be NULL) is set when it is known. */
uint32_t intent_network_mtu(const struct intent *i, const struct link *l, const char **ret_source);

/* What is known for the NIC of that address, or NULL. */
const struct intent_network *intent_network_of(const struct intent *i, const uint8_t mac[static 6]);

/*
 * Takes one over, in place of what is known for that NIC. t: the NICs of this host; what is known for NICs
 * that are gone makes room. -ERANGE: outside 1300 to 8896; -ENODEV: no data-centre NIC has that address;
 * -EINVAL: the source is empty, too long or not printable; -ENOSPC; why says it with the NIC's address.
 */
int intent_networks_take(struct intent *i, const struct link_table *t, const struct intent_network *offer,
                         char why[static 160]);

/* The file's text; returns its length. -ENOSPC. */
int intent_networks_format(const struct intent *i, const char *boot_id,
                           char buf[static INTENT_NETWORKS_TEXT_MAX]);
/* Takes the file's text into i. A file of another boot gives none. -EBADMSG: not such a file; i is
 * untouched. */
int intent_networks_parse(const char *text, size_t len, const char *boot_id, struct intent *i);
/* Reads the file of this boot; one that is missing gives none, one that is damaged none and a warning.
 * Returns 0, or -errno of a shortage (errno_is_shortage()). */
int intent_networks_load(const struct host *h, struct intent *i);
