/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Questions to the metadata server, one at a time, and when to ask the next: the header that it wants, what
 * came back, waiting for a change with an ETag. What fails is asked again after a random wait of up to 30 s,
 * once a minute at most when the server has long been away; a server that answers waits without waiting is
 * asked less and less.
 */
#include <systemd/sd-event.h>

#include "exchange.h"
#include "metadata_facts.h"

#define METADATA_ETAG_MAX 64

struct poll {
        /* it is time for the next question; at first with the first turn of the loop */
        void (*due)(struct poll *p);
        /* error: there is no answer; else a, whose status may be any. */
        void (*answered)(struct poll *p, const struct metadata_answer *a, const char *error);

        /* the caller's: what a wait is begun with; empty: none to wait with */
        char known[METADATA_ETAG_MAX];
        bool waiting;      /* the question at work, or answered last, is a wait for a change */
        unsigned failures; /* in a row; the caller's to set back */

        /* of the last answer */
        uint64_t hash; /* FNV-1a of all that came */
        bool flavored;
        char etag[METADATA_ETAG_MAX]; /* empty: none that can go back in a URL */

        struct exchange *exchange;
        sd_event *event; /* borrowed */
        sd_event_source *timer;
        usec_t asked_at;
        unsigned quick;
};

/*
 * due and answered are set, the rest is zero, and p stays where it is until poll_clear(). name: of the
 * timer. url is borrowed; beside: one whose connections this one shares, and that is cleared after it; NULL:
 * none. -errno: to be cleared all the same.
 */
int poll_init(struct poll *p, sd_event *e, const char *name, const char *url, const char *user_agent,
              const struct poll *beside);
void poll_clear(struct poll *p);

/* wait: 0, or how long for a change from what `known` says, whole seconds. -errno: nothing was asked. */
int poll_ask(struct poll *p, const char *path, usec_t wait);
/* The question at work ends without an answer. False: there was none. */
bool poll_cancel(struct poll *p);
/* The next question is due in so long; after a failure; after an answer: at once, unless the server does not
 * wait. */
void poll_in(struct poll *p, usec_t span);
void poll_retry(struct poll *p);
void poll_go_on(struct poll *p);
