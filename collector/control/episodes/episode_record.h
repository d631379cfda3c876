/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Episodes as records of the registry, episode/ID (docs/registry.md): what was asked, how far it came, its
 * verdict; so that another collector answers for it, and goes on with it. The last EPISODES_KEPT_MAX are
 * kept. Inside this room only.
 */
#include "episodes.h"

#define EPISODE_RECORD_MAX ((size_t) 60 * 1024) /* bytes: below what the registry takes */
#define EPISODE_SLICES_MAX 256u

struct episode_records {
        const struct episodes_options *o; /* borrowed */
        json_t *kept; /* id -> when it was asked for */
};
int episode_records_init(struct episode_records *k, const struct episodes_options *o);
void episode_records_clear(struct episode_records *k);

/* The record is as the store has it now, without what would make it too large (the tree, then who was asked,
 * then the report). slice: its first. */
void episode_records_keep(struct episode_records *k, const char *id, const char *slice);

/*
 * A record (NULL: gone) into the store, inside a transaction, as far as it does not know it yet. slices: of
 * the run, as in episodes_asked(), for a record without those who were asked; NULL: not known. 1: something
 * was new; 0: nothing.
 */
int episode_records_take(struct episode_records *k, const char *id, const json_t *record,
                         const json_t *slices);

/* slice: that it is about; NULL: any. */
bool episode_is_stored(struct store *s, const char *id, const char *slice, int64_t *ret_generation);

/*
 * slices: of a run's record, each {"slice","hosts":[{"worker","host","address"}]}. Returns a list of
 * {"slice","worker","host","address"}, as it is kept; NULL: out of memory.
 */
json_t *asked_hosts(const json_t *slices);
/* host -> true of such a list; NULL: there is none, whoever answers counts. */
json_t *asked_names(const json_t *hosts);
