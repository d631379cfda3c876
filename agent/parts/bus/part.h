/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A part of tpu-hostd: a library with a state of its own, which no other part sees. agent.c holds the table
 * of all parts, in the order in which they depend on each other; what a part needs of the host and of the
 * others it gets from the bus (bus.h), and from the header of a part that stands before it in the table. Of
 * calls.h, the helpers that need no state serve all parts.
 */
#include "bus.h"
#include "http_routes.h"

/* A call of the query API. A static table of these ends with PART_ROUTES_END. */
struct part_route {
        struct http_route route; /* NAME in a path: of a run, checked by the call */
        bool takes_body;    /* others are read and dropped */
        /* self: the part's state. 0: *ret is the answer; 1: http_answer() follows. */
        int (*call)(void *self, const struct http_request *r, struct http_reply *ret);
};
#define PART_ROUTES_END { .call = NULL }

/*
 * Every function may be NULL, and gets the part's state: size bytes, 0 before start() but for the pointer to
 * the bus, which is the first member. agent.c owns that memory.
 */
struct part {
        const char *name;
        size_t size;
        const struct part_route *routes; /* NULL: none */

        /* In the order of the table. What a host may lack is logged and no failure. -errno: tpu-hostd cannot
         * start; stop() follows. */
        int (*start)(void *self);
        /* SIGHUP: bus->settings are the new ones. In the reverse order of the table: what identity publishes
         * finds them in use. */
        void (*reload)(void *self);
        /* Every MetricsInterval, before anything is sampled. */
        void (*tick)(void *self);
        /* Behind all ticks: samples and findings of this round. What an earlier round gave and this one does
         * not is forgotten. */
        void (*sample)(void *self, struct bus_sink *s);
        /* Something happened: called by the part that published it, while that part is at work, and so also
         * before start() and after stop(), when the state is 0 or cleared. */
        void (*hear)(void *self, const struct bus_news *n);
        /* Adds this part's members to GET /v1/status. -ENOMEM. */
        int (*status)(void *self, json_t *status);
        /* The loop has ended: in the reverse order of the table, also of what was not started or only half.
         * Frees all but the state. */
        void (*stop)(void *self);
};

/* The state of a part, for the getters of its own header. It must be in the table. */
void *bus_part(const struct bus *b, const struct part *p);
