/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside of grpc: a channel, its calls and its connections, and what the files of this room ask of each
 * other. grpc.c has the calls, grpc_answer.c how they end, grpc_streams.c HTTP/2 (libnghttp2),
 * grpc_connection.c the socket, grpc_tls.c what is between the two.
 *
 * What comes in is only noted while libnghttp2 and OpenSSL are at work; callbacks are made afterwards, from
 * grpc_settle().
 */
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "grpc.h"
#include "lookup.h"
#include "tls_files.h"

#define GRPC_URL_MAX 1024
#define DEADLINE_GRACE                                                                                      \
        (200 * USEC_PER_MSEC)          /* the server's own word about a deadline is better than ours        \
                                        */
#define LOST_AFTER (20 * USEC_PER_SEC) /* a peer that acknowledges nothing for so long is gone */
#define UNREAD_MAX (256 * 1024)        /* beyond a message's limit: what may wait for its turn in the loop */

enum state {
        CALL_FREE,
        CALL_WAITING /* for the name */,
        CALL_AT_WORK,
        CALL_LOST /* its name was not found */
};

struct grpc_call {
        struct grpc *channel;
        struct grpc_connection *connection; /* of one that is at work */
        int32_t stream;
        enum state state;
        unsigned serial; /* of its use: another one after each */
        struct grpc_head head;
        bool too_long, unread;
        bool open; /* its request goes on */
        bool closed, refused, reset; /* its stream ended; the server did not look at it; it ended by a reset */
        long http;
        uint8_t *in, *out;
        size_t in_len, in_size, out_len, out_at;
        usec_t deadline, due; /* boot clock; due: USEC_INFINITY: never */
        void (*message)(const uint8_t *data, size_t len, void *userdata);
        void (*done)(const struct grpc_answer *a, void *userdata);
        void *userdata;
        char path[GRPC_URL_MAX], timeout[12], metadata[GRPC_METADATA_MAX][GRPC_METADATA_LINE_MAX];
        struct grpc_call *next;
};

struct bytes {
        uint8_t *data;
        size_t len, size;
};

enum phase { PHASE_DIALING, PHASE_HANDSHAKE, PHASE_OPEN };

union address {
        struct sockaddr any;
        struct sockaddr_storage room;
};

struct grpc_connection {
        struct grpc *channel;
        struct grpc_connection *next;
        enum phase phase;
        bool failed, retired;    /* retired: takes no new calls */
        bool alerted, heard_any; /* alerted: TLS was refused by the other end */
        bool waits_to_send;
        bool late; /* a call was not answered in time, and nothing came since */
        int fd;
        sd_event_source *io;
        union address addresses[LOOKUP_ADDRESSES];
        size_t n_addresses, address;
        usec_t due, address_due; /* until when it has to be open; until when this address has to answer */
        usec_t heard;
        nghttp2_session *session;
        SSL *ssl;              /* NULL: plain */
        struct bytes out;      /* as it goes out */
        size_t out_at;
        char why[GRPC_WHY_MAX];
};

struct grpc {
        sd_event *event;
        sd_event_source *settle, *timer;
        struct lookup *lookup; /* NULL: the URL has an address */
        struct tls_files tls;
        EVP_PKEY *key; /* NULL: none */
        SSL_CTX *context; /* of the files as they were looked at last */
        char *name, *host, *authority, *path, *user_agent;
        uint16_t port;
        usec_t connect_timeout, timer_due;
        size_t message_max, n_calls;
        unsigned slow; /* handshakes in a row that took too long: the next one is given more time */
        bool https;
        struct grpc_connection *connections, *current; /* current: takes new calls; NULL: none does */
        struct grpc_call *calls;
};

usec_t grpc_now(const struct grpc *g);
/* Callbacks are due, or there is something to send: from the loop. */
void grpc_unsettled(struct grpc *g);
/* Makes the callbacks that are due, sends, and gives up what nobody needs: connections, too. */
void grpc_settle(struct grpc *g);

/* --- grpc_answer.c ---------------------------------------------------------------------------------- */

/* Empties a call's place for the next one. */
void grpc_clear(struct grpc_call *c);
/* Ends a call without an answer of its server. */
void grpc_fail(struct grpc_call *c, enum grpc_outcome outcome, enum grpc_status status, const char *why);
/* Makes the callbacks that are due for what came. */
void grpc_call_settle(struct grpc_call *c);
/* Its time is over. */
void grpc_call_late(struct grpc_call *c);
/* Bytes of its answer. -E2BIG: it is cut off here. */
int grpc_take_body(struct grpc_call *c, const uint8_t *data, size_t len);

/* --- grpc_streams.c --------------------------------------------------------------------------------- */

/* -ENOMEM. */
int grpc_streams_new(struct grpc_connection *n);
/* The call goes out on this connection. -ENOMEM, -EAGAIN: it takes none any more. */
int grpc_streams_ask(struct grpc_connection *n, struct grpc_call *c);
/* There is more of its request than was sent. */
void grpc_streams_resume(struct grpc_call *c);
/* Nobody waits for the answer any more. */
void grpc_streams_forget(struct grpc_call *c);
/* What came; notes a failure. */
void grpc_streams_take(struct grpc_connection *n, const uint8_t *data, size_t len);
/* What is to be sent is put behind out, about 16 KiB of it. 1: something; 0: nothing is left; -ENOMEM, -EIO. */
int grpc_streams_fill(struct grpc_connection *n, struct bytes *out);

/* --- grpc_tls.c ------------------------------------------------------------------------------------- */

/* The context of the files as they were looked at, if there is none yet; out of memory: there is none still. */
void grpc_tls_prepare(struct grpc *g);
int grpc_tls_new(struct grpc_connection *n);
/* Encrypted bytes came; notes a failure. */
void grpc_tls_take(struct grpc_connection *n, const uint8_t *data, size_t len);
/* As grpc_streams_fill(), encrypted; of the handshake, as long as that is going on. */
int grpc_tls_fill(struct grpc_connection *n, struct bytes *out);

/* --- grpc_connection.c ------------------------------------------------------------------------------ */

/* How long a connection may take: to be accepted, and then for TLS. */
usec_t grpc_connect_span(const struct grpc *g);
/* A new one that takes calls from now on. -ENOMEM, -errno; what fails later is told to its calls. */
int grpc_dial(struct grpc *g);
struct grpc_connection *grpc_connection_free(struct grpc_connection *n);
/* Its calls end by this; only the first reason counts. */
_printf_(2, 3) void grpc_connection_fail(struct grpc_connection *n, const char *fmt, ...);
/* It takes no new calls. */
void grpc_connection_retire(struct grpc_connection *n);
/* It stands: the time of its calls counts from here on. */
void grpc_connection_open(struct grpc_connection *n);
/* Of what was sent the other end's machine has not taken all. */
bool grpc_connection_has_unacknowledged(const struct grpc_connection *n);
void grpc_connection_flush(struct grpc_connection *n);
/* While it is not open yet: another address, or the end. */
void grpc_connection_late(struct grpc_connection *n, usec_t now);
/* -ENOMEM. */
int grpc_bytes_add(struct bytes *b, const uint8_t *data, size_t len);
