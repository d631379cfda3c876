/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which host has a worker slot, as the site says (SlotFrom=). Words with blanks between, of two kinds: the
 * path of a file with "SLICE/WORKER HOST" lines (name_list.h), and names of hosts with {slice} and {worker}
 * in them. Files go before names. A slot that no word gives is nobody's. Without words the site does not
 * say, and a free slot goes to the host that claims it first (gang.h).
 *
 *   {slice}-w-{worker}   /etc/tpu-hostd/slots
 */
#include "base.h"
#include "name_list.h"

#define SLOT_FROM_WHY_MAX 256

struct slot_from;
/* Files are read. -EINVAL with why: a name without both, or a file that cannot be used; -E2BIG, -ENOMEM. */
int slot_from_new(const char *words, struct slot_from **ret, char why[static NAME_LIST_WHY_MAX]);
struct slot_from *slot_from_free(struct slot_from *f);
DEFINE_CLEANUP(struct slot_from *, slot_from_free)

/* Whether the slot is this host's; false: why says whose it is. Files that changed are read again, and what
 * is wrong with one is logged: its previous content stays in force. */
bool slot_from_gives(struct slot_from *f, const char *slice, unsigned worker, const char *host,
                     char why[static SLOT_FROM_WHY_MAX]);
