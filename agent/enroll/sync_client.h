/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside of the room: the registry of tpu-collectord. POST /registry/v1/sync, one request at a time, which
 * says what this host is, renews its lease and is held by the server until there is news. What we say has
 * changed: the held request is ended, and the next one says it at once. The contract is registry.h's.
 */
#include "registry.h"

/* --- What the registry has said, and who is called when that changes ----------------------------------- */

#define REGISTRY_KEY_MAX 160

struct registry_told {
        sd_event *event;
        struct registry_events events;
        void *userdata;
        struct registry_status status;
        json_t *records; /* key → value */
        bool complete;   /* the first whole answer has been handed over */
};

/* t is zeroed memory. -ENOMEM: registry_told_clear() is still to be called. */
int registry_told_init(struct registry_told *t, sd_event *e, const struct registry_events *events,
                       void *userdata);
void registry_told_clear(struct registry_told *t);

/* One record as it is now (NULL or null: gone); the handler is called when it has changed. */
void registry_told_record(struct registry_told *t, const char *key, const json_t *value);
/* These are all: what was known before and is not among them is gone. Then `complete`, the first time. */
void registry_told_whole(struct registry_told *t, const json_t *records);
/* The status from now on; the handler is called when it has changed. since changes with the state alone. */
void registry_told_status(struct registry_told *t, enum registry_state s, bool may_claim, const char *why);

/* --- The client ---------------------------------------------------------------------------------------- */

struct sync_client;

/* told and the texts of o are borrowed. -EINVAL with *why. */
int sync_client_new(struct registry_told *told, const struct registry_options *o, struct sync_client **ret,
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
