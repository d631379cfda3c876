/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside of the room: the registry of tpu-collectord. POST /registry/v1/sync, one request at a time, which
 * says what this host is, renews its lease and is held by the server until there is news. What we say has
 * changed: the held request is ended, and the next one says it at once. The contract is registry.h's.
 */
#include "sync_answer.h"

struct sync_client;

/* The registry and the texts of o are borrowed. -EINVAL with *why. */
int sync_client_new(struct registry_known *told, const struct registry_options *o, struct sync_client **ret,
                    char why[static 256]);
struct sync_client *sync_client_free(struct sync_client *c);
DEFINE_CLEANUP(struct sync_client *, sync_client_free)

int sync_client_say(struct sync_client *c, const json_t *member);
void sync_client_leave(struct sync_client *c);
bool sync_client_has_left(const struct sync_client *c);
void sync_client_renew(struct sync_client *c);
int sync_client_figures(struct sync_client *c, const json_t *figures);
uint64_t sync_client_term(const struct sync_client *c);
int sync_client_post(struct sync_client *c, const char *path_and_query, const char *content_type,
                     const void *body, size_t len, registry_post_done done, void *userdata);
