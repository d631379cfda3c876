/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside of the room: what was told of records and of the registry's state, and who is told of changes. */
#include "registry.h"

#define REGISTRY_KEY_MAX 160

struct registry_told {
        sd_event *event;
        struct registry_events events;
        void *userdata;
        struct registry_status status;
        json_t *records; /* key → value */
        bool complete;   /* all that was there at first has been told */
};

/* t is zeroed memory. -ENOMEM: registry_told_clear() is still to be called. */
int registry_told_init(struct registry_told *t, sd_event *e, const struct registry_events *events,
                       void *userdata);
void registry_told_clear(struct registry_told *t);

/* One record as it is now (NULL or null: gone); told when it has changed. */
void registry_told_record(struct registry_told *t, const char *key, const json_t *value);
/* These are all: what was told before and is not among them is gone. Then `complete`, the first time. */
void registry_told_whole(struct registry_told *t, const json_t *records);
/* The status from now on; told when it has changed. since changes with the state alone. */
void registry_told_status(struct registry_told *t, enum registry_state s, bool may_claim, const char *why);
