/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside of the etcd client: its members, its questions at work, its watches. */
#include "etcd.h"

struct etcd_question {
        struct etcd *etcd;
        enum etcd_method method;
        bool again, stale; /* again: may be asked twice */
        size_t tried, endpoint;
        usec_t asked;
        uint8_t *data;
        size_t len;
        struct grpc_call *call;
        etcd_done done;
        void *userdata;
        struct etcd_question *next;
};

struct etcd_watch {
        struct etcd *etcd;
        struct etcd_watch_question question;
        size_t n_keys, n_asked, n_created; /* asked, created: in the stream at work */
        char *keys[ETCD_WATCH_KEYS_MAX], *ends[ETCD_WATCH_KEYS_MAX]; /* ends: NULL: as the key says */
        int64_t behind[ETCD_WATCH_KEYS_MAX]; /* the first revision that was not told yet: etcd lets one lag
                                              behind another */
        int64_t ids[ETCD_WATCH_KEYS_MAX];    /* etcd's own, of the stream at work */
        size_t endpoint;
        unsigned failures;
        bool idle, calling, gone; /* gone: freed out of its own callback */
        struct grpc_call *call;
        sd_event_source *timer; /* to begin, or, while a stream is at work, to ask for the other keys */
        struct etcd_watch *next;
};

struct etcd {
        sd_event *event;
        usec_t timeout;
        size_t n_endpoints, current;
        char *urls[ETCD_ENDPOINTS_MAX];
        struct grpc *channels[ETCD_ENDPOINTS_MAX];
        sd_event_source *unsent; /* questions that could not even be started end from the loop */
        struct etcd_question *questions;
        struct etcd_watch *watches;
};

/* A member did not do its part: others are asked from now on, and its watches move. */
void etcd_endpoint_failed(struct etcd *c, size_t endpoint);
/* Of etcd_endpoint_failed(): the watches at that member begin anew elsewhere. */
void etcd_watches_move(struct etcd *c, size_t from);
void etcd_watch_destroy(struct etcd_watch *w);
/* 64 random bits. */
uint64_t etcd_random(void);
