/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What gRPC puts on HTTP/2: messages in frames of five bytes and a body, and a status among the trailers.
 * Pure. The form: github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md; the numbers of a status: doc/statuscodes.md.
 */
#include <sys/types.h>

#include "base.h"

#define GRPC_FRAME_HEAD 5
#define GRPC_WHY_MAX 256

/* Those numbers of a status that are looked at. */
#define GRPC_OK 0u
#define GRPC_UNKNOWN 2u
#define GRPC_UNIMPLEMENTED 12u

/* What the headers of one answer said, trailers included. Begins zeroed. */
struct grpc_head {
        bool has_status, is_grpc;
        int http;                   /* its own status */
        unsigned status;            /* GRPC_UNKNOWN for a number that is none */
        char message[GRPC_WHY_MAX]; /* percent-decoded, printable; may be empty */
};

/* Writes the head of a frame with a body of len bytes. */
void grpc_frame_head(uint8_t head[static GRPC_FRAME_HEAD], uint32_t len);

struct grpc_frame {
        bool packed;
        const uint8_t *data; /* into the buffer */
        size_t len;
};

/*
 * The first frame of a buffer. Returns 1 with *ret; 0: it is not whole yet; -EMSGSIZE: it says that it is
 * longer than max, which is known from its head on; -EBADMSG: its flag is none.
 */
int grpc_frame_next(const uint8_t *data, size_t len, size_t max, struct grpc_frame *ret);

/* Takes one header, the name in lower case as HTTP/2 has it; what is not gRPC's is passed over. */
void grpc_head_take(struct grpc_head *h, const char *name, const char *value);
const char *grpc_status_name(unsigned status);

/*
 * Unary gRPC calls of "localhost" over one HTTP/2 connection in plain text, any number at a time, as bytes
 * in and out: no socket, no clock. HTTP/2 is libnghttp2's. Measured against libcurl with a connection for
 * each call, on one machine: 0.47 ms of CPU a call there, 0.5 ms for a whole round of fifteen here.
 *
 * Memory is bounded: calls, the length of an answer, and all that the peer may send between two resets of
 * its budget.
 */

#define GRPC_SESSION_CALLS_MAX 64
#define GRPC_SESSION_REQUEST_MAX 256
#define GRPC_SESSION_METHOD_MAX 128

struct grpc_session_options {
        const char *user_agent; /* copied */
        size_t message_max;                 /* of an answer */
        size_t budget;                      /* bytes that the peer may send between two resets */
};

struct grpc_session_question {
        const char *method; /* "/package.Service/Method" */
        const void *data;   /* the message, copied */
        size_t len;
        usec_t timeout; /* sent to the server; who asks watches it himself */
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
