/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Unary gRPC calls over one HTTP/2 connection in plain text, any number at a time, as bytes in and out: no
 * socket, no clock. HTTP/2 is libnghttp2's. Measured against libcurl with a connection for each call, on one
 * machine: 0.47 ms of CPU a call there, 0.5 ms for a whole round of fifteen here.
 *
 * Memory is bounded: calls, the length of an answer, and all that the peer may send between two resets of
 * its budget.
 */
#include <sys/types.h>

#include "base.h"
#include "grpc_message.h"

#define GRPC_SESSION_CALLS_MAX 64
#define GRPC_SESSION_REQUEST_MAX 256
#define GRPC_SESSION_METHOD_MAX 128

struct grpc_session_options {
        const char *authority, *user_agent; /* copied */
        size_t message_max;                 /* of an answer */
        size_t budget;                      /* bytes that the peer may send between two resets */
};

struct grpc_session_question {
        const char *method; /* "/package.Service/Method" */
        const void *data;   /* the message, copied */
        size_t len;
        usec_t timeout; /* told to the server; who asks watches it himself */
        /*
         * error: 0 with the answer, which is valid inside of done only; -ENOTSUP: the server has no such
         * method; -EREMOTEIO: it says no; -EMSGSIZE: the answer is too long; -EBADMSG: it is none; else what
         * grpc_session_fail() was given. why: one line. May ask again.
         */
        void (*done)(int error, const uint8_t *data, size_t len, const char *why, void *userdata);
        void *userdata;
};

struct grpc_session;
int grpc_session_new(const struct grpc_session_options *o, struct grpc_session **ret);
/* Forgets all calls; done is not called. Not from done. */
struct grpc_session *grpc_session_free(struct grpc_session *s);
DEFINE_CLEANUP(struct grpc_session *, grpc_session_free)

/* -EBUSY: GRPC_SESSION_CALLS_MAX calls are open; -EINVAL: too long; -ENOTCONN: the peer takes no more;
 * -ENOMEM. */
int grpc_session_ask(struct grpc_session *s, const struct grpc_session_question *q);
size_t grpc_session_open(const struct grpc_session *s); /* calls that have not ended */
void grpc_session_reset_budget(struct grpc_session *s);

/* The next bytes to send, valid until the next call; 0: none now. -errno: the connection is to be closed. */
ssize_t grpc_session_output(struct grpc_session *s, const uint8_t **ret);
/*
 * Bytes that came. -EPROTO: no HTTP/2; -ECONNRESET: the server said goodbye; -ENOBUFS: over the budget;
 * -ENOMEM: the connection is to be closed.
 */
int grpc_session_input(struct grpc_session *s, const uint8_t *data, size_t len);
/* Calls done for each call that has ended; outside of the other functions, so that done may ask. */
void grpc_session_deliver(struct grpc_session *s);
/* Whether there is something to deliver; also what is sent can end calls. */
bool grpc_session_has_ended(const struct grpc_session *s);
/* Ends all calls with this, and delivers. */
void grpc_session_fail(struct grpc_session *s, int error, const char *why);
