/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Unary gRPC calls of a server on this very host, over one plain connection that is kept, in an sd-event
 * loop. Questions are put together into an exchange: all are sent with one write, and an exchange has one
 * deadline. Between exchanges nothing is sent; when the server's process ends, the connection tells it at
 * once. Addresses: 127.0.0.1, and ::1 when nobody listens there.
 */
#include <systemd/sd-event.h>

#include "grpc_session.h"

struct grpc_local;

struct grpc_local_options {
        const char *name; /* of the event sources ("libtpu") */
        const char *user_agent;
        uint16_t port;
        size_t message_max, budget; /* of grpc_session_options; the budget is of one exchange */
        usec_t timeout;             /* of an exchange */
        /* The connection is closed, after done of each open call; error and why as given to those. Must not
         * free. */
        void (*closed)(int error, const char *why, void *userdata);
        void *userdata;
};

/* All texts are copied. Nothing is connected yet. */
int grpc_local_new(sd_event *e, const struct grpc_local_options *o, struct grpc_local **ret);
/* done is not called. */
struct grpc_local *grpc_local_free(struct grpc_local *l);
DEFINE_CLEANUP(struct grpc_local *, grpc_local_free)

/*
 * Connects unless that is done. -ECONNREFUSED: nobody listens; other -errno of socket(2) and connect(2);
 * never blocks. -EBUSY: from inside of done.
 */
int grpc_local_open(struct grpc_local *l);
/* Puts a question into the exchange that grpc_local_send() sends; as grpc_session_ask(); -ENOTCONN: not
 * open. */
int grpc_local_ask(struct grpc_local *l, const struct grpc_session_question *q);
/* Sends what was asked and begins its deadline. done reports what fails. */
void grpc_local_send(struct grpc_local *l);
/* What went over all connections so far. */
struct grpc_local_traffic {
        uint64_t calls, exchanges, connections, sent, received;
};
const struct grpc_local_traffic *grpc_local_traffic(const struct grpc_local *l);
