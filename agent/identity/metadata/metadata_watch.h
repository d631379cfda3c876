/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One key of the metadata server, followed: asked for once, then waited for with its ETag
 * (wait_for_change), for as long as it takes. What fails is tried again after a random wait of up to 30 s,
 * once a minute at most when the server has long been away. A key that the server does not have is asked for again after
 * METADATA_ABSENT_FIRST (a young host's are set while it boots), and then after twice the time before, up to METADATA_ABSENT_MAX.
 */
#include "http_loop.h"

#define METADATA_WATCH_WAIT                                                                                 \
        (300 * USEC_PER_SEC) /* of one wait for a change; not much, for it costs a wakeup */
#define METADATA_WATCH_VALUE_MAX 1024
#define METADATA_ABSENT_FIRST    (15 * USEC_PER_SEC)
#define METADATA_ABSENT_MAX      (600 * USEC_PER_SEC)

struct metadata_watch_options {
        sd_event *event;
        struct http_loop *loop;
        const char *url; /* copied */
        const char *name; /* of the timer; copied */
        const char *user_agent; /* borrowed */
        usec_t wait; /* of one wait for a change, whole seconds; 0: METADATA_WATCH_WAIT */
        /*
         * At first, and when it is another one. value: up to METADATA_WATCH_VALUE_MAX bytes of the body,
         * trimmed, with what cannot be printed replaced.
         */
        void (*changed)(const char *value, void *userdata);
        void *userdata;
};

struct metadata_watch;
int metadata_watch_new(const struct metadata_watch_options *o, struct metadata_watch **ret);
/* After the loop was freed, which still knows its transfer. */
struct metadata_watch *metadata_watch_free(struct metadata_watch *w);
