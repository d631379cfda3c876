/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside of grpc: a channel and its calls, and what the files of this room ask of each other. */
#include "grpc.h"
#include "http_loop.h"
#include "lookup.h"
#include "tls_files.h"

#define GRPC_URL_MAX 1024
#define DEADLINE_GRACE                                                                                      \
        (200 * USEC_PER_MSEC)          /* the server's own word about a deadline is better than ours        \
                                        */
#define LOST_AFTER (20 * USEC_PER_SEC) /* a peer that acknowledges nothing for so long is gone */
#define UNREAD_MAX (256 * 1024)        /* beyond a message's limit: what may wait for its turn in the loop */

enum {
        HEADER_TYPE,
        HEADER_TE,
        HEADER_ACCEPT,
        HEADER_EXPECT,
        HEADER_TIMEOUT,
        HEADER_METADATA,
        _HEADER_MAX = HEADER_METADATA + GRPC_METADATA_MAX
};

enum state {
        CALL_FREE,
        CALL_WAITING /* for the name */,
        CALL_AT_WORK,
        CALL_LOST /* its name was not found */
};

struct grpc_call {
        struct http_transfer transfer; /* the first member: done is given it */
        struct grpc *channel;
        enum state state;
        unsigned serial; /* of its use: another one after each */
        struct grpc_head head;
        bool too_long, unread, never_sent;
        long http;
        uint8_t *in, *out;
        size_t in_len, in_size, out_len;
        usec_t deadline;
        void (*message)(const uint8_t *data, size_t len, void *userdata);
        void (*done)(const struct grpc_answer *a, void *userdata);
        void *userdata;
        char url[GRPC_URL_MAX];
        struct curl_slist headers[_HEADER_MAX], addresses;
        char header_text[_HEADER_MAX][GRPC_METADATA_LINE_MAX], addresses_text[LOOKUP_TEXT_MAX];
        struct grpc_call *next;
};

struct grpc {
        sd_event *event;
        sd_event_source *deliver;
        struct http_loop *loop;
        struct lookup *lookup; /* NULL: the URL has an address */
        struct tls_files tls;
        char *url, *user_agent;
        usec_t connect_timeout;
        size_t message_max, n_calls;
        bool https, works, fresh;
        /* works: the last call did */ /* fresh: no connection of before is believed to work */
        struct grpc_call *calls;
};

/* Empties a call's place for the next one. */
void grpc_clear(struct grpc_call *c);
/* Ends a call without an answer of its server. */
void grpc_fail(struct grpc_call *c, enum grpc_outcome outcome, enum grpc_status status, const char *why);
/* Of http_transfer: the exchange ended. */
void grpc_on_done(struct http_transfer *t, const char *error);
/* Of libcurl: CURLOPT_WRITEFUNCTION. */
size_t grpc_on_body(char *data, size_t size, size_t n, void *userdata);
/* Of sd-event: messages of streams are waiting. */
int grpc_on_deliver(sd_event_source *source, void *userdata);
