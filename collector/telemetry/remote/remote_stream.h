/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One stream of what is handed on (remote_write.c): points, events or lines. A stream sends one request at a
 * time, and says what becomes of it; streams do not wait for each other. What the requests are is the matter
 * of its kind.
 * Inside the room only.
 */
#include "exchange.h"
#include "remote_request.h"
#include "remote_stale.h"
#include "remote_write.h"

struct remote_stream;

struct remote_kind {
        const char *name;    /* of what is in it, for people */
        const char *path;    /* behind the URL */
        const char *headers; /* more lines; "": none */
        bool otlp;
        size_t most; /* rows or records of one request */
        /* What waits becomes t->request, and t->n. 1; 0: nothing waits. Asked again after -errno. */
        int (*next)(struct remote_stream *t, usec_t now);
        /* It was refused: the next one is a smaller part of it. false: it is as small as it gets. */
        bool (*halve)(struct remote_stream *t);
        /* It was taken, or given up: it waits no more. */
        int (*end)(struct remote_stream *t, bool taken, usec_t now);
        /* The database was replaced. Also before the first request. */
        void (*forget)(struct remote_stream *t);
};
/* Of Prometheus remote write, and of OTLP. */
extern const struct remote_kind remote_kind_samples, remote_kind_points;
extern const struct remote_kind remote_kind_events, remote_kind_lines;

struct remote_stream {
        const struct remote_kind *kind;
        const struct remote_options *o;
        struct exchange *exchange;
        sd_event_source *timer;
        struct remote_request request;
        bool ready;        /* the request is there, to be sent or sent again */
        size_t n, max;     /* rows or records in it; at most: fewer after a refusal */
        usec_t since;      /* boot clock: something may wait since then; 0: nothing waits */
        unsigned failures; /* in a row */
        bool said[_REMOTE_REASON_MAX], down;
        struct remote_counters counters;
        struct {
                struct handover batch; /* what the request is made of: of these points a part, */
                size_t done, part;     /* behind so many; 0: all that are left */
                size_t within;         /* behind so many, among these is one that is refused; 0: not known */
                bool whole;            /* the part is counts and their sums: no smaller one is sent */
                unsigned halved, most; /* how often the points of this batch were, and may be */
                struct stale stale;
                int64_t after; /* the next batch begins behind this row */
                bool passed;   /* something was found in this round, from the first row to the last */
                usec_t began, marked; /* boot clock: the round, and when series were looked at that ended */
        } points;
        struct {
                int64_t at;      /* up to here they are handed on; -1: not known yet */
                int64_t through; /* up to here they are in the request */
                bool all;        /* nothing waited behind it */
                usec_t read;     /* boot clock: when that was so */
        } records;
};
