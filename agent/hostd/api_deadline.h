/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Connections that may not last as they please. libmicrohttpd limits silence, and a client that sends one
 * byte now and then is never silent: so each connection has a time by which what it does must be done. One
 * timer for all, off while none is connected.
 */
#include <systemd/sd-event.h>

#include "base.h"

/* From the connection, or the answer before, to a whole request. */
#define API_REQUEST_TIME (15 * USEC_PER_SEC)
#define API_ANSWER_TIME (60 * USEC_PER_SEC) /* until all of an answer was taken */

/* Part of the struct of a connection, from api_deadline_add() to api_deadline_remove(). */
struct api_deadline {
        int fd;
        usec_t at; /* boot clock; USEC_INFINITY: none */
        struct api_deadline *next, **previous;
};

struct api_deadlines {
        sd_event *event; /* borrowed: it outlives us */
        sd_event_source *timer;
        struct api_deadline *first;
};

/* name: of the event source. */
int api_deadlines_init(struct api_deadlines *all, sd_event *e, const char *name);
/* Connections may be left: they are removed later. */
void api_deadlines_clear(struct api_deadlines *all);

/* fd: borrowed; its other side is shut down when the time is up, and libmicrohttpd closes it then. */
void api_deadline_add(struct api_deadlines *all, struct api_deadline *d, int fd, usec_t from_now);
/* USEC_INFINITY: it waits for us. */
void api_deadline_set(struct api_deadlines *all, struct api_deadline *d, usec_t from_now);
void api_deadline_remove(struct api_deadlines *all, struct api_deadline *d);
