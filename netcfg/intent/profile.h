/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A profile is an ini text; every value of it has a section of its own with Value= and Source=:
 *
 *   [Mtu]
 *   Value=8896
 *   Source=Google Cloud VPC docs: MTU of a network
 *   [Sysctl net.ipv4.tcp_rmem]
 *   Value=4096 41943040 314572800
 *   Source=…
 *
 * Sections: [Mtu], [Sysctl NAME] (below net.), [Parameter MODULE.NAME] (of modules tcp_*), [RtoMin]
 * (a span: 5ms), [RpFilter] (loose), [SourceRouting] (yes), and of each data-centre NIC
 * [Feature NAME] (on or off) and [PrivateFlag DRIVER NAME] (on or off; only of that driver's NICs).
 *
 * A section without a Source, with a Value that cannot be one, or of an unknown name is refused by itself:
 * the problem is logged with file and line, and the rest of the profile stands.
 */
#include "host.h"
#include "wanted.h"

/* Reads the first of /etc, /run and /usr/lib /tpu-hostd/NAME ("machines.conf", "profiles/v6e.conf") into
 * text, which has CONFIG_FILE_MAX bytes; path is that of the file, for messages. -ENOENT: there is none. */
int profile_read(const struct host *h, const char *name, char path[static 128], char *text, size_t *ret_len);

#define PROFILE_SOURCE_MAX 88 /* with the profile's name and line it must fit into intent's source */

/* Takes the values of text into i (mtu to source_routing_source; i->profile names it). path is for
 * messages. Returns the number of refused sections and lines, or -errno. */
int profile_parse(const char *path, const char *text, size_t len, struct intent *i);
