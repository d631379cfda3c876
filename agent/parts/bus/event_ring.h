/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The last events of this agent, for /v1/events. */
#include "events.h"

#define EVENT_RING 256
struct event_record {
        uint64_t seq; /* 1, 2, …: the API's cursor */
        usec_t time_real;
        enum event_id id;
        enum severity severity;
        char *body; /* JSON; owned */
};
struct event_ring {
        struct event_record records[EVENT_RING]; /* seq lives at seq % EVENT_RING */
        uint64_t next_seq;                       /* what the next event gets */
};
void event_ring_init(struct event_ring *r);
void event_ring_clear(struct event_ring *r);
/* -ENOMEM: it is not kept. */
int event_ring_add(struct event_ring *r, const struct event *e, usec_t time_real);
/* {events: […], next: SEQ, missed: N} of what is kept with seq >= since (0: of all), oldest first; missed:
 * how many of those with seq >= since are gone. Without stacks, the text of events that hold some is left
 * out. New reference; NULL when out of memory. */
json_t *event_ring_to_json(const struct event_ring *r, uint64_t since, bool stacks);
