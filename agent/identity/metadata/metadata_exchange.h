/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Questions to the metadata server, one at a time, and when to ask the next: the header that it wants, what
 * came back, waiting for a change with an ETag. What fails is asked again after a random wait of up to 30 s,
 * once a minute at most when the server has long been away; a server that answers waits without waiting is
 * asked less and less.
 */
#include <systemd/sd-event.h>

#include "http_loop.h"
#include "metadata_facts.h"

#define METADATA_ETAG_MAX 64

struct exchange {
        /* the caller's, before exchange_init() */
        const char *user_agent; /* borrowed */
        char *body;             /* of `size` bytes; what is more is counted, not kept */
        size_t size;
        void (*due)(struct exchange *x); /* it is time for the next question; at first with the first turn of
                                            the loop */
        /* error: there is no answer; else a, whose status may be any. */
        void (*answered)(struct exchange *x, const struct metadata_answer *a, const char *error);

        char known[METADATA_ETAG_MAX]; /* the caller's: what a wait is begun with; empty: none to wait with
                                        */
        bool waiting;      /* the question at work, or answered last, is a wait for a change */
        unsigned failures; /* in a row; the caller's to set back */

        /* of the last answer */
        size_t len;    /* all that came */
        uint64_t hash; /* FNV-1a of all that came */
        bool flavored, too_long;
        char etag[METADATA_ETAG_MAX]; /* empty: none that can go back in a URL */

        struct http_transfer transfer;
        sd_event *event; /* borrowed */
        sd_event_source *timer;
        usec_t asked_at;
        unsigned quick;
        struct curl_slist flavor; /* libcurl only reads it */
        char flavor_text[32];
};

/* x stays where it is as long as loop does. name: of the timer. */
int exchange_init(struct exchange *x, sd_event *e, struct http_loop *loop, const char *name);
/* After the loop was freed, which still knows its transfer. */
void exchange_clear(struct exchange *x);

/* wait: 0, or how long for a change from what `known` says, whole seconds. -ENOMEM, -EIO. */
int exchange_ask(struct exchange *x, const char *url, usec_t wait);
/* The next question is due in so long; after a failure; after an answer: at once, unless the server does not
 * wait. */
void exchange_in(struct exchange *x, usec_t span);
void exchange_retry(struct exchange *x);
void exchange_go_on(struct exchange *x);
