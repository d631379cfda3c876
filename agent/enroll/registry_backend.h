/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside of the room: what the backends of registry.h have in common. Each has a struct whose first member is
 * struct registry, made by registry_KIND_new() and known to registry.c alone.
 */
#include "registry.h"

#define REGISTRY_KEY_MAX 160

struct registry_backend {
        void (*free)(struct registry *r); /* all of it: registry_clear(), then its memory */
        int (*say)(struct registry *r, const json_t *member);
        bool (*leave)(struct registry *r); /* whether a word is on its way: r->leaving until it is answered */
        int (*put)(struct registry *r, const char *key, const json_t *value, registry_put_done done,
                   void *userdata);
        void (*renew)(struct registry *r);
        int (*figures)(struct registry *r, const json_t *figures);
        uint64_t (*term)(const struct registry *r);
        int (*post)(struct registry *r, const char *path_and_query, const char *content_type, const void *body,
                    size_t len, registry_post_done done, void *userdata);
};

struct registry {
        const struct registry_backend *backend;
        sd_event *event;
        struct registry_options options; /* its texts are ours; never NULL but ca, certificate, key */
        struct registry_events events;
        void *userdata;
        struct registry_status status;
        json_t *records; /* what was told and stands: key → value */
        bool leaving;    /* it says goodbye */
        bool complete;   /* all that was there at first has been told */
};

/* r is zeroed memory. -ENOMEM: registry_clear() is still to be called. */
int registry_init(struct registry *r, const struct registry_backend *b, sd_event *e,
                  const struct registry_options *o, const struct registry_events *events, void *userdata);
void registry_clear(struct registry *r);

/* One record as it is now (NULL or null: gone); told when it is another one than before. */
void registry_take(struct registry *r, const char *key, const json_t *value);
/* These are all: what was told before and is not among them is gone. Then `complete`, the first time. */
void registry_take_whole(struct registry *r, const json_t *records);
/* The status from now on; told when it is another one. since changes with the state alone. */
void registry_tell(struct registry *r, enum registry_state s, bool may_claim, const char *why);

int registry_static_new(sd_event *e, const struct registry_options *o, const struct registry_events *events,
                        void *userdata, struct registry **ret, char why[static 256]);
int registry_collector_new(sd_event *e, const struct registry_options *o,
                           const struct registry_events *events, void *userdata, struct registry **ret,
                           char why[static 256]);
int registry_etcd_new(sd_event *e, const struct registry_options *o, const struct registry_events *events,
                      void *userdata, struct registry **ret, char why[static 256]);
