/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * gRPC calls of one server in an sd-event loop, over HTTP/2 by libnghttp2 and TLS by OpenSSL: one message out, one message (unary) or any
 * number of them (streaming) back. A request ends with what it was asked with, unless it says that it stays open (grpc_more()).
 *
 * A channel has one server and one connection, made with the first call and shared by all. A new one takes its
 * place when it broke, when a call was not answered in time and nothing else came by it either (the second time in a
 * row, if the server's machine has taken all that was sent: then it may be slow), when the server says that it takes no more, and when the certificate files, which are looked at for each call, are other ones;
 * calls at work stay where they are. Not by libcurl: until 8.0 it breaks on the second call of a connection
 * that began as HTTP/2 in plain text (curl issue 10634), and may hold back what it took off a socket.
 *
 * http is for labs: nothing protects it. A name is looked up beside the loop (lookup.h), which may add up to
 * LOOKUP_TIMEOUT to a call's deadline.
 *
 * A callback may start and cancel calls of any channel; it must not free the channel that it was called
 * from.
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "grpc_message.h"

#define GRPC_CALLS_MAX 64 /* of a channel at a time */
#define GRPC_METADATA_MAX 3
#define GRPC_METADATA_LINE_MAX 512
#define GRPC_MESSAGE_MAX (8 * 1024 * 1024) /* what an answer is cut off at, whatever its options say */

/*
 * What is known about what was asked for, which is what decides whether it may be asked again:
 * UNSENT: it never left: no such name, nobody listens, TLS refused. May be asked of anybody, at once.
 * REFUSED: the server says that it did not do it, and would not for the same question.
 * UNCERTAIN: it may have been done: the answer did not come in time or is none, or the server says that it
 * does not know itself. Who asks again must be right in both cases; who cannot, looks first.
 */
enum grpc_outcome { GRPC_ANSWERED, GRPC_UNSENT, GRPC_REFUSED, GRPC_UNCERTAIN };

struct grpc_answer {
        enum grpc_outcome outcome;
        enum grpc_status status; /* UNAVAILABLE or INTERNAL where no server said one */
        bool local;              /* status and why are ours: no answer came, or none that can be used */
        const char *why;         /* one line; "" when answered */
        const uint8_t *data;     /* of an answered unary call; valid inside done only */
        size_t len;
};

struct grpc;
struct grpc_call;

struct grpc_options {
        const char *name; /* of the event sources ("etcd") */
        const char *url;  /* "https://host:port" or "http://host:port", without path; all texts are copied */
        const char *user_agent;
        const char *ca, *cert, *key; /* files in PEM form; NULL: the system's authorities, no certificate */
        usec_t connect_timeout; /* for the connection, and again for TLS on it, there up to four times of it after failures;
                                   comes on top of the deadline of a call that begins before it stands */
        size_t message_max;     /* an answer's longer message ends its call; at most GRPC_MESSAGE_MAX */
};

/* -EINVAL: no such URL, or it holds a password. */
int grpc_new(sd_event *e, const struct grpc_options *o, struct grpc **ret);
/* Ends all calls; done is not called. */
struct grpc *grpc_free(struct grpc *g);
DEFINE_CLEANUP(struct grpc *, grpc_free)

/* Looks at the certificate files now: reading them costs more than the handshake, and is done before the first call. */
void grpc_prepare(struct grpc *g);

struct grpc_question {
        const char *method; /* "/package.Service/Method" */
        const void *data;   /* the message, copied */
        size_t len;
        bool framed;     /* data is frames already, for a method that takes a stream of messages */
        bool open;       /* of framed: more of them are to come by grpc_more() */
        usec_t deadline; /* a span, told to the server too; 0: none, for streams that are to stay */
        const char *metadata[GRPC_METADATA_MAX]; /* "name: value" lines, copied; NULL: no more */
        /*
         * A streaming call's messages as they come, outside of any other callback; NULL: the call is unary,
         * and anything but one message is a failure.
         */
        void (*message)(const uint8_t *data, size_t len, void *userdata);
        /* The call ended, and is gone. A stream that ends well is GRPC_ANSWERED without data. */
        void (*done)(const struct grpc_answer *a, void *userdata);
        void *userdata;
};

/*
 * *ret is good until done is called or grpc_cancel(). -EBUSY: GRPC_CALLS_MAX calls are at work; -EINVAL: a
 * line of metadata or the URL is too long; -EBADMSG: the certificate files are no good, see grpc_trouble();
 * -ENOMEM, -EIO. done is then not called.
 */
int grpc_ask(struct grpc *g, const struct grpc_question *q, struct grpc_call **ret);
/* The last frames of a call that was asked as open. -ENOMEM; -EINVAL: it is not open. */
int grpc_more(struct grpc_call *c, const void *frames, size_t len);
/* Ends a call; done is not called. Returns NULL. */
struct grpc_call *grpc_cancel(struct grpc_call *c);
/* What is wrong with the certificate files; "": nothing. */
const char *grpc_trouble(const struct grpc *g);
