/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The spools of other machines that were set aside (machine_state.h): what they hold is sent under its own
 * spool id and host name, one spool at a time, behind the current state of this host. A spool that has
 * nothing left is removed; one that cannot be opened stays, and is named.
 */
#include "part.h"
#include "uplink.h"

/* Opens one by the settings; own: spool_dir, max_bytes, held, aside and on_durable. */
typedef int (*uplink_open_t)(struct bus *b, const struct uplink_options *own, struct uplink **ret);

struct aside {
        struct bus *bus;
        uplink_open_t open;
        struct uplink *uplink;      /* of the one at work; NULL: none is */
        char path[MACHINE_PATH_MAX]; /* its folder, or that of the next; empty: there is none */
        unsigned n;                 /* its number (machine_state_aside_name()) */
};

void aside_start(struct aside *a, struct bus *b, uplink_open_t open);
static inline bool aside_is_there(const struct aside *a) {
        return a->path[0] != '\0';
}

/* Each tick; own: of this host's spool. True: the last one is gone. */
bool aside_look(struct aside *a, const struct uplink_stats *own);
/* {"spool", "kept", "bytes"}, or null. New reference; NULL: out of memory. */
json_t *aside_to_json(const struct aside *a);
void aside_stop(struct aside *a);
