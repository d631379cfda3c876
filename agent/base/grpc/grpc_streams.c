/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 by libnghttp2: a call is a stream. Nothing here calls back to who asked. */
#include "grpc_state.h"

#define STREAM_WINDOW (1024 * 1024) /* what is taken is taken at once: a window only bounds what is under way */
#define CONNECTION_WINDOW (4 * 1024 * 1024)
#define FILL (16 * 1024)
#define LINE_MAX_TAKEN 2048 /* of a header; grpc-message keeps GRPC_WHY_MAX of it */

static struct grpc_call *call_of(const struct grpc_connection *n, int32_t stream) {
        for (struct grpc_call *c = n->channel->calls; c; c = c->next)
                if (c->state == CALL_AT_WORK && c->connection == n && c->stream == stream)
                        return c;
        return NULL;
}

/* --- What comes in ---------------------------------------------------------------------------------- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *userdata) {
        struct grpc_call *c = call_of(userdata, frame->hd.stream_id);
        char line[LINE_MAX_TAKEN];
        int len;

        (void) session, (void) flags;
        if (!c)
                return 0;
        if (name_len == 7 && memcmp(name, ":status", 7) == 0) {
                c->http = strtol((const char *) value, NULL, 10); /* libnghttp2 ends it with a NUL */
                return 0;
        }
        len = snprintf(line, sizeof(line), "%.*s: %.*s", (int) MIN(name_len, (size_t) 100), (const char *) name,
                       (int) MIN(value_len, sizeof(line) - 110), (const char *) value);
        if (len > 0)
                grpc_head_take(&c->head, line, (size_t) len);
        return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t len,
                   void *userdata) {
        struct grpc_call *c = call_of(userdata, stream);

        (void) flags;
        if (!c || c->closed)
                return 0;
        if (grpc_take_body(c, data, len) < 0) {
                c->closed = true;
                (void) nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
        }
        return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *userdata) {
        struct grpc_call *c = call_of(userdata, stream);

        (void) session;
        if (!c || c->closed)
                return 0;
        c->closed = true;
        c->reset = code != NGHTTP2_NO_ERROR;
        c->refused = code == NGHTTP2_REFUSED_STREAM; /* RFC 9113, 8.7: it was not looked at */
        return 0;
}

/* A request that is not allowed to go out any more. */
static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error, void *userdata) {
        struct grpc_call *c = call_of(userdata, frame->hd.stream_id);

        (void) session, (void) error;
        if (c && frame->hd.type == NGHTTP2_HEADERS)
                c->closed = c->reset = c->refused = true;
        return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *userdata) {
        (void) session;
        if (frame->hd.type == NGHTTP2_GOAWAY)
                grpc_connection_retire(userdata);
        return 0;
}

void grpc_streams_take(struct grpc_connection *n, const uint8_t *data, size_t len) {
        ssize_t k = nghttp2_session_mem_recv(n->session, data, len);

        n->heard_any = true;
        if (k < 0)
                grpc_connection_fail(n, "what the server sends is no HTTP/2: %s", nghttp2_strerror((int) k));
}

/* --- What goes out ---------------------------------------------------------------------------------- */

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *buf, size_t len, uint32_t *flags,
                       nghttp2_data_source *source, void *userdata) {
        struct grpc_call *c = call_of(userdata, stream);

        (void) session, (void) source;
        if (!c)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* ends the stream */
        len = MIN(len, c->out_len - c->out_at);
        if (len == 0 && c->open)
                return NGHTTP2_ERR_DEFERRED; /* until grpc_streams_resume() */
        memcpy(buf, c->out + c->out_at, len);
        c->out_at += len;
        if (c->out_at == c->out_len && !c->open)
                *flags |= NGHTTP2_DATA_FLAG_EOF;
        return (ssize_t) len;
}

/* libnghttp2 copies both. */
static nghttp2_nv pair(const char *name, size_t name_len, const char *value) {
        return (nghttp2_nv){ .name = (uint8_t *) (uintptr_t) name,
                             .namelen = name_len,
                             .value = (uint8_t *) (uintptr_t) value,
                             .valuelen = strlen(value) };
}

int grpc_streams_ask(struct grpc_connection *n, struct grpc_call *c) {
        const struct grpc *g = n->channel;
        const nghttp2_data_provider body = { .read_callback = on_read };
        const char *const fixed[][2] = {
                { ":method", "POST" },
                { ":scheme", g->https ? "https" : "http" },
                { ":authority", g->authority },
                { ":path", c->path },
                { "te", "trailers" },
                { "content-type", "application/grpc" },
                { "user-agent", g->user_agent },
                { "grpc-accept-encoding", "identity" },
        };
        nghttp2_nv headers[ELEMENTSOF(fixed) + 1 + GRPC_METADATA_MAX];
        size_t k = 0;

        for (size_t i = 0; i < ELEMENTSOF(fixed); i++)
                headers[k++] = pair(fixed[i][0], strlen(fixed[i][0]), fixed[i][1]);
        if (c->timeout[0])
                headers[k++] = pair("grpc-timeout", strlen("grpc-timeout"), c->timeout);
        for (size_t i = 0; i < GRPC_METADATA_MAX && c->metadata[i][0]; i++) {
                size_t name = strcspn(c->metadata[i], ":"), gap = strspn(c->metadata[i] + name, ": ");

                headers[k++] = pair(c->metadata[i], name, c->metadata[i] + name + gap);
        }
        c->stream = nghttp2_submit_request(n->session, NULL, headers, k, &body, NULL);
        if (c->stream < 0)
                return c->stream == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EAGAIN;
        return 0;
}

void grpc_streams_resume(struct grpc_call *c) {
        if (c->connection->failed || c->closed)
                return;
        (void) nghttp2_session_resume_data(c->connection->session, c->stream); /* fails for one that was not all sent yet: it will be */
        grpc_unsettled(c->channel);
}

void grpc_streams_forget(struct grpc_call *c) {
        struct grpc_connection *n = c->connection;

        if (!n || n->failed || c->closed)
                return;
        /* out of memory: the server goes on with it, and nobody listens */
        (void) nghttp2_submit_rst_stream(n->session, NGHTTP2_FLAG_NONE, c->stream, NGHTTP2_CANCEL);
        grpc_unsettled(n->channel);
}

int grpc_streams_fill(struct grpc_connection *n, struct bytes *out) {
        size_t before = out->len;

        while (out->len < FILL) {
                const uint8_t *data;
                ssize_t k = nghttp2_session_mem_send(n->session, &data);

                if (k < 0)
                        return k == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EIO;
                if (k == 0)
                        break;
                if (grpc_bytes_add(out, data, (size_t) k) < 0)
                        return -ENOMEM;
        }
        return out->len > before;
}

/* --- Life ------------------------------------------------------------------------------------------- */

static int settings(nghttp2_session *s) {
        const nghttp2_settings_entry entries[] = {
                { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
                { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW },
        };
        int bad = nghttp2_submit_settings(s, NGHTTP2_FLAG_NONE, entries, ELEMENTSOF(entries));

        bad |= nghttp2_session_set_local_window_size(s, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
        return bad ? -ENOMEM : 0;
}

int grpc_streams_new(struct grpc_connection *n) {
        nghttp2_session_callbacks *calls;
        int k;

        if (nghttp2_session_callbacks_new(&calls) != 0)
                return -ENOMEM;
        nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
        nghttp2_session_callbacks_set_on_frame_not_send_callback(calls, on_not_sent);
        nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
        k = nghttp2_session_client_new(&n->session, calls, n);
        nghttp2_session_callbacks_del(calls);
        return k != 0 ? -ENOMEM : settings(n->session);
}
