/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Asks libtpu's runtime metrics service: every process that holds a TPU offers it on a port of its own, on
 * loopback, as long as it holds it. A port where nobody listens is no failure: nothing runs. While
 * no process answers, a port where nobody listened is asked once a minute, but for the first, which every
 * run's first process has: sixteen connections that are refused were a seventh of what an idle host costs.
 * And when for LIBTPU_QUIET_ROUNDS no process answered and the caller expects none, the first is asked in
 * each third round only.
 *
 * A round asks all ports at once, each with one exchange over a connection that is kept (grpc_local.h):
 * gauges in every round, counters and distributions every LIBTPU_SLOW_INTERVAL. What a process offers is
 * asked first and again with the slow ones. A process that is new, or that does not answer well, is left
 * alone for a while. Rounds come from the caller's own tick, whose phase differs from host to host; they are
 * at least LIBTPU_INTERVAL apart, whatever the caller does.
 *
 * What each core does (GetTpuRuntimeStatus) is asked by libtpu_client_status() only.
 */
#include <systemd/sd-event.h>

#include "grpc_local.h"
#include "libtpu_status.h"

#define LIBTPU_PORTS_MAX 16
#define LIBTPU_INTERVAL (10 * USEC_PER_SEC - 500 * USEC_PER_MSEC) /* the tick may come a little early */
#define LIBTPU_SLOW_INTERVAL (60 * USEC_PER_SEC - 500 * USEC_PER_MSEC)
#define LIBTPU_QUIET_ROUNDS 6
#define LIBTPU_TIMEOUT (2 * USEC_PER_SEC)
#define LIBTPU_BACKOFF_MAX (5 * 60 * USEC_PER_SEC)

struct libtpu_handlers {
        /* A point of the process on this port (its place in the list of ports). */
        void (*point)(unsigned port, enum libtpu_metric id, const struct libtpu_point *p, void *userdata);
        /* All points of an answer were reported: what was known of this metric before is gone. */
        void (*answered)(unsigned port, enum libtpu_metric id, void *userdata);
        /* The process is gone, or does not answer: what was known of it is void. why: NULL when it is
         * gone. */
        void (*gone)(unsigned port, const char *why, void *userdata);
        /* A round is over. */
        void (*round)(const struct libtpu_reading *r, void *userdata);
};

struct libtpu_client;
/* ports and h are copied, n at most LIBTPU_PORTS_MAX. user_agent is copied. */
int libtpu_client_new(sd_event *e, const uint16_t *ports, size_t n, const char *user_agent,
                      const struct libtpu_handlers *h, void *userdata, struct libtpu_client **ret);
/* Not from inside of a handler. Of a status in progress done is called, with what came so far; no other
 * handler is. */
struct libtpu_client *libtpu_client_free(struct libtpu_client *c);
DEFINE_CLEANUP(struct libtpu_client *, libtpu_client_free)

/* A round, unless the last is too young or not over. now: boot clock. expected: a run is known here. */
void libtpu_client_look(struct libtpu_client *c, usec_t now, usec_t now_real, bool expected);
/*
 * What each core does, from all processes. done is called once, later, also when there are none, with what
 * is valid inside of it only. -EBUSY: one is in progress; -ENOMEM.
 */
int libtpu_client_status(struct libtpu_client *c,
                         void (*done)(const struct libtpu_status *s, void *userdata), void *userdata);
void libtpu_client_cancel_status(struct libtpu_client *c);

struct libtpu_stats {
        struct grpc_local_traffic traffic; /* of all ports */
        uint64_t rounds, left_out;         /* left_out: points that made no sense */
        uint64_t refused;                  /* connections */
        unsigned live;                     /* processes that answered last */
};
void libtpu_client_stats(const struct libtpu_client *c, struct libtpu_stats *ret);
