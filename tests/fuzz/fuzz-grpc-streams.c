/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server sends on a connection of two calls at work, a unary one and a stream; the first byte says in which
 * pieces. Each call ends once at most; what was sent and came never leaves a message longer than its bound.
 */
#include <assert.h>

#include "grpc_state.h"

#define LEN_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_message(const uint8_t *data, size_t len, void *userdata) {
        unsigned *ended = userdata;

        assert(*ended == 0 && len <= LEN_MAX && (data || len == 0));
}

static void on_done(const struct grpc_answer *a, void *userdata) {
        unsigned *ended = userdata;

        assert(++*ended == 1 && a->why && a->len <= LEN_MAX);
        assert(a->outcome == GRPC_ANSWERED || a->why[0]);
}

static void begin(struct grpc_connection *n, struct grpc_call *c, bool is_stream, unsigned *ended) {
        c->channel = n->channel;
        c->connection = n;
        (void) snprintf(c->path, sizeof(c->path), "/test.Test/call");
        c->out = calloc(1, GRPC_FRAME_HEAD);
        c->out_len = GRPC_FRAME_HEAD;
        c->message = is_stream ? on_message : NULL;
        c->done = on_done;
        c->userdata = ended;
        assert(c->out && grpc_streams_ask(n, c) == 0);
        c->state = CALL_AT_WORK;
}

/* Nobody takes it. */
static void drain(struct grpc_connection *n) {
        struct bytes out = { 0 };

        while (grpc_streams_fill(n, &out) > 0)
                out.len = 0;
        free(out.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct grpc_call calls[2] = { 0 };
        struct grpc g = { .message_max = LEN_MAX, .calls = calls };
        struct grpc_connection n = { .channel = &g, .fd = -1, .phase = PHASE_OPEN };
        unsigned ended[2] = { 0 };
        size_t piece = size > 0 && data[0] ? data[0] : SIZE_MAX;

        if (size < 1)
                return 0;
        g.user_agent = g.authority = (char *) (uintptr_t) "fuzz";
        calls[0].next = &calls[1];
        assert(grpc_streams_new(&n) == 0);
        for (size_t i = 0; i < 2; i++)
                begin(&n, &calls[i], i == 1, &ended[i]);
        drain(&n);
        for (size_t at = 1; at < size && !n.failed; at += MIN(piece, size - at)) {
                grpc_streams_take(&n, data + at, MIN(piece, size - at));
                for (size_t i = 0; i < 2; i++)
                        grpc_call_settle(&calls[i]);
                drain(&n);
        }
        grpc_connection_fail(&n, "the end");
        for (size_t i = 0; i < 2; i++) {
                grpc_call_settle(&calls[i]);
                assert(ended[i] == 1 && calls[i].state == CALL_FREE);
                free(calls[i].in);
        }
        nghttp2_session_del(n.session);
        return 0;
}
