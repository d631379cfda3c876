/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Records that are too large for one value of etcd: the long lists in them (the hosts of a run's slices; who
 * is in a slice, who is missing) are values of their own, of at most LARGE_PIECE entries, and the record's
 * head says how many pieces stand in place of each: {"pieces":N}. A piece is never changed: a new list has a
 * new number, pieces are written before the head that names them, and the old ones go after it. Pure.
 *
 * Piece: hosts/KIND/NAME/NUMBER/LIST/PIECE under the tenant's prefix; the head has "pieces":"NUMBER".
 */
#include <jansson.h>

#include "base.h"

#define LARGE_TEXT ((size_t) 256 * 1024) /* of a record as text: from here on it is split */
#define LARGE_PIECE 256
#define LARGE_PREFIX "hosts/"

/*
 * Splits value, which stands under key, with the pieces' keys beginning as number says. *ret_head: to be
 * written under key; pieces gets them by key. -EMSGSIZE: nothing in it can be split; -ENOMEM.
 */
int large_split(const char *key, const json_t *value, const char *number, json_t **ret_head, json_t *pieces);
/* Whether the record has pieces. */
bool large_has_pieces(const json_t *head);
/* The whole record of a head; pieces: by key. -ENOENT: one is missing; -EBADMSG; -ENOMEM. */
int large_join(const char *key, const json_t *head, const json_t *pieces, json_t **ret);
/* What the keys of its pieces begin with: "hosts/run/NAME/". */
#define LARGE_KEY_MAX 256
void large_prefix(const char *key, const char *number, char ret[static LARGE_KEY_MAX]);
