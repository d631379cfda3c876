/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A transaction, made piece by piece. What cannot be had (memory, room) is said when it is sent. */
#include "etcd.h"

struct etcd_ops;

struct etcd_ops *etcd_ops_new(void);
struct etcd_ops *etcd_ops_free(struct etcd_ops *o);
DEFINE_CLEANUP(struct etcd_ops *, etcd_ops_free)

enum etcd_branch { ETCD_THEN, ETCD_ELSE };

/* Only if the key's create or mod revision is this one; 0: there is no such key. Texts are copied,
 * everywhere. */
void etcd_ops_if_created(struct etcd_ops *o, const char *key, int64_t revision);
void etcd_ops_if_modified(struct etcd_ops *o, const char *key, int64_t revision);
/* lease: 0: none. */
void etcd_ops_put(struct etcd_ops *o, enum etcd_branch b, const char *key, const char *value, int64_t lease);
/* end: up to this key, and not it; NULL: as the key says. */
void etcd_ops_range(struct etcd_ops *o, enum etcd_branch b, const char *key, const char *end);
void etcd_ops_delete(struct etcd_ops *o, enum etcd_branch b, const char *key);
/* Put unless it is there, then read: one operation, a transaction of its own in this one. */
void etcd_ops_put_new(struct etcd_ops *o, enum etcd_branch b, const char *key, const char *value, int64_t lease);
/* How many of the two branches' longer one; at most ETCD_OPS_MAX. */
size_t etcd_ops_count(const struct etcd_ops *o);
/* -ENOMEM, -E2BIG: more than ETCD_OPS_MAX; done is then not called. o stays the caller's. */
int etcd_ops_send(struct etcd_ops *o, struct etcd *c, etcd_done done, void *userdata);
