/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_session.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>

#include "grow.h"
#include "texts.h"

/* --- Messages ----------------------------------------------------------------------------------------- */

/* By number, from 0 on. */
static const char *const names[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
};

const char *grpc_status_name(unsigned status) {
        return names[status < ELEMENTSOF(names) ? status : GRPC_UNKNOWN];
}

/* --- Frames ----------------------------------------------------------------------------------------- */

void grpc_frame_head(uint8_t head[static GRPC_FRAME_HEAD], uint32_t len) {
        head[0] = 0;
        head[1] = (uint8_t) (len >> 24);
        head[2] = (uint8_t) (len >> 16);
        head[3] = (uint8_t) (len >> 8);
        head[4] = (uint8_t) len;
}

int grpc_frame_next(const uint8_t *data, size_t len, size_t max, struct grpc_frame *ret) {
        size_t body;

        if (len > 0 && data[0] > 1)
                return -EBADMSG;
        if (len < GRPC_FRAME_HEAD)
                return 0;
        body = (size_t) data[1] << 24 | (size_t) data[2] << 16 | (size_t) data[3] << 8 | data[4];
        if (body > max)
                return -EMSGSIZE;
        if (len - GRPC_FRAME_HEAD < body)
                return 0;
        *ret = (struct grpc_frame){ .packed = data[0] == 1, .data = data + GRPC_FRAME_HEAD, .len = body };
        return 1;
}

/* --- Headers ---------------------------------------------------------------------------------------- */

/* Percent-decodes; what a terminal might obey, and all beyond ASCII, becomes '?'. */
static void decode(const char *value, char text[static GRPC_WHY_MAX]) {
        size_t n = 0;

        for (size_t i = 0; value[i] && n + 1 < GRPC_WHY_MAX; i++) {
                char c = value[i];

                if (c == '%' && hex_digit(value[i + 1]) >= 0 && hex_digit(value[i + 2]) >= 0) {
                        c = (char) (hex_digit(value[i + 1]) << 4 | hex_digit(value[i + 2]));
                        i += 2;
                }
                text[n++] = c >= ' ' && c <= '~' ? c : '?';
        }
        text[n] = '\0';
}

static unsigned parse_status(const char *value) {
        size_t n = strspn(value, "0123456789");
        unsigned status = n >= 1 && n <= 2 && !value[n] ? (unsigned) atoi(value) : GRPC_UNKNOWN;

        return status < ELEMENTSOF(names) ? status : GRPC_UNKNOWN;
}

void grpc_head_take(struct grpc_head *h, const char *name, const char *value) {
        if (streq(name, ":status"))
                h->http = atoi(value);
        else if (streq(name, "grpc-status")) {
                h->has_status = true;
                h->status = parse_status(value);
        } else if (streq(name, "grpc-message"))
                decode(value, h->message);
        else if (streq(name, "content-type"))
                h->is_grpc = startswith(value, "application/grpc");
}

/* --- The session -------------------------------------------------------------------------------------- */

#define BODY_KEPT 16384 /* a buffer that an answer has grown beyond it is given back */
#define WINDOW (1024 * 1024)
#define WHY_MAX 160

/* FREE again when done has returned: what it asks goes elsewhere. */
enum state {
        CALL_FREE,
        CALL_OPEN,
        CALL_ENDED
};

struct call {
        struct grpc_session *session;
        enum state state;
        int32_t stream;
        struct grpc_head head;
        int error; /* what it ended with before it was looked at */
        char why[WHY_MAX];
        uint8_t out[GRPC_FRAME_HEAD + GRPC_SESSION_REQUEST_MAX];
        size_t out_len, out_at;
        uint8_t *in;
        size_t in_len, in_size;
        void (*done)(int error, const uint8_t *data, size_t len, const char *why, void *userdata);
        void *userdata;
};

struct grpc_session {
        nghttp2_session *http2;
        struct call calls[GRPC_SESSION_CALLS_MAX];
        size_t n_open, n_ended, message_max, budget, left;
        bool goodbye; /* the server said that it goes, and that nothing is wrong */
        char user_agent[64];
};

/* --- What libnghttp2 tells --------------------------------------------------------------------------- */

static struct call *call_of(nghttp2_session *http2, int32_t stream) {
        struct call *c = nghttp2_session_get_stream_user_data(http2, stream);

        return c && c->state == CALL_OPEN && c->stream == stream ? c : NULL;
}

static void end_call(struct call *c, int error, const char *why) {
        if (c->state != CALL_OPEN)
                return;
        c->state = CALL_ENDED;
        c->session->n_open--;
        c->session->n_ended++;
        c->error = error;
        (void) snprintf(c->why, sizeof(c->why), "%s", why);
}

/* libnghttp2 ends both texts by NUL, and takes none within them. */
static int on_header(nghttp2_session *http2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *userdata) {
        struct call *c = call_of(http2, frame->hd.stream_id);

        (void) name_len, (void) value_len, (void) flags, (void) userdata;
        if (c)
                grpc_head_take(&c->head, (const char *) name, (const char *) value);
        return 0;
}

static void give_call_up(struct call *c, int error, const char *why) {
        (void) nghttp2_submit_rst_stream(c->session->http2, NGHTTP2_FLAG_NONE, c->stream, NGHTTP2_CANCEL);
        end_call(c, error, why);
}

static int on_body(nghttp2_session *http2, uint8_t flags, int32_t stream, const uint8_t *data, size_t len,
                   void *userdata) {
        const struct grpc_session *s = userdata;
        struct call *c = call_of(http2, stream);
        struct grpc_frame f;

        (void) flags;
        if (!c)
                return 0;
        if (len > s->message_max + GRPC_FRAME_HEAD - MIN(c->in_len, s->message_max + GRPC_FRAME_HEAD)) {
                give_call_up(c, -EMSGSIZE, "the answer is longer than is taken");
                return 0;
        }
        if (grow(&c->in, &c->in_size, c->in_len + len, 1) < 0) {
                give_call_up(c, -ENOMEM, "out of memory");
                return 0;
        }
        memcpy(c->in + c->in_len, data, len);
        c->in_len += len;
        if (grpc_frame_next(c->in, c->in_len, s->message_max, &f) == -EMSGSIZE)
                give_call_up(
                        c, -EMSGSIZE,
                        "the answer is longer than is taken"); /* not read to its end to find that out */
        return 0;
}

static int on_close(nghttp2_session *http2, int32_t stream, uint32_t code, void *userdata) {
        struct call *c = call_of(http2, stream);

        (void) userdata;
        if (c)
                end_call(c, code != NGHTTP2_NO_ERROR && !c->head.has_status ? -ECONNRESET : 0,
                         "the server reset the call");
        return 0;
}

static int on_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *userdata) {
        (void) http2;
        if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code == NGHTTP2_NO_ERROR)
                ((struct grpc_session *) userdata)->goodbye = true;
        return 0;
}

static ssize_t on_read(nghttp2_session *http2, int32_t stream, uint8_t *buf, size_t len, uint32_t *flags,
                       nghttp2_data_source *source, void *userdata) {
        struct call *c = source->ptr;
        size_t n = MIN(len, c->out_len - c->out_at);

        (void) http2, (void) stream, (void) userdata;
        memcpy(buf, c->out + c->out_at, n);
        c->out_at += n;
        if (c->out_at == c->out_len)
                *flags |= NGHTTP2_DATA_FLAG_EOF;
        return (ssize_t) n;
}

/* --- The end of a call ------------------------------------------------------------------------------- */

/* Returns what it ended with; then *f is the answer, or why says why there is none. */
static int judge_answer(const struct call *c, struct grpc_frame *f, char why[static WHY_MAX]) {
        size_t max = c->session->message_max;

        if (c->error < 0) {
                (void) snprintf(why, WHY_MAX, "%s", c->why);
                return c->error;
        }
        if (!c->head.has_status)
                return text_fail(why, WHY_MAX, -EBADMSG, "HTTP status %d, and none of gRPC", c->head.http);
        if (c->head.status != GRPC_OK) {
                (void) snprintf(why, WHY_MAX, "%s: %.100s", grpc_status_name(c->head.status),
                                c->head.message);
                return c->head.status == GRPC_UNIMPLEMENTED ? -ENOTSUP : -EREMOTEIO;
        }
        if (!c->head.is_grpc || grpc_frame_next(c->in, c->in_len, max, f) <= 0 ||
            c->in_len != GRPC_FRAME_HEAD + f->len || f->packed)
                return text_fail(why, WHY_MAX, -EBADMSG, "an OK without one whole message");
        return 0;
}

static void finish_call(struct call *c) {
        struct grpc_frame f = { .len = 0 };
        char why[WHY_MAX] = "";
        int r = judge_answer(c, &f, why);

        c->done(r, r == 0 ? f.data : NULL, r == 0 ? f.len : 0, why, c->userdata);
        if (c->in_size > BODY_KEPT) {
                free(TAKE_PTR(c->in));
                c->in_size = 0;
        }
        c->state = CALL_FREE;
        c->session->n_ended--;
}

bool grpc_session_has_ended(const struct grpc_session *s) {
        return s->n_ended > 0;
}

void grpc_session_deliver(struct grpc_session *s) {
        for (size_t i = 0; i < GRPC_SESSION_CALLS_MAX; i++)
                if (s->calls[i].state == CALL_ENDED)
                        finish_call(&s->calls[i]);
}

void grpc_session_fail(struct grpc_session *s, int error, const char *why) {
        for (size_t i = 0; i < GRPC_SESSION_CALLS_MAX; i++)
                end_call(&s->calls[i], error, why);
        grpc_session_deliver(s);
}

/* --- Asking ------------------------------------------------------------------------------------------ */

#define FIELD(key, text)                                                                                    \
        ((nghttp2_nv){ .name = (uint8_t *) (uintptr_t) (key),                                               \
                       .value = (uint8_t *) (uintptr_t) (text),                                             \
                       .namelen = strlen(key),                                                              \
                       .valuelen = strlen(text) })

static int submit(struct call *c, const char *method, usec_t timeout) {
        const struct grpc_session *s = c->session;
        const nghttp2_data_provider body = { .source.ptr = c, .read_callback = on_read };
        char timeout_text[16];
        int n = snprintf(timeout_text, sizeof(timeout_text), "%" PRIu64 "m",
                         MIN(timeout / USEC_PER_MSEC, (usec_t) 99999999)); /* at most eight digits */
        const nghttp2_nv fields[] = {
                FIELD(":method", "POST"),
                FIELD(":scheme", "http"),
                FIELD(":path", method),
                FIELD(":authority", "localhost"),
                FIELD("te", "trailers"),
                FIELD("content-type", "application/grpc"),
                FIELD("user-agent", s->user_agent),
                FIELD("grpc-accept-encoding", "identity"),
                FIELD("grpc-timeout", timeout_text),
        };

        assert(n > 0 && (size_t) n < sizeof(timeout_text));
        c->stream = nghttp2_submit_request(s->http2, NULL, fields, ELEMENTSOF(fields), &body, c);
        if (c->stream < 0)
                return c->stream == NGHTTP2_ERR_NOMEM ? -ENOMEM : -ENOTCONN;
        return 0;
}

static struct call *place(struct grpc_session *s) {
        for (size_t i = 0; i < GRPC_SESSION_CALLS_MAX; i++)
                if (s->calls[i].state == CALL_FREE)
                        return &s->calls[i];
        return NULL;
}

int grpc_session_ask(struct grpc_session *s, const struct grpc_session_question *q) {
        struct call *c = place(s);
        int r;

        if (!c)
                return -EBUSY;
        if (q->len > GRPC_SESSION_REQUEST_MAX || strlen(q->method) >= GRPC_SESSION_METHOD_MAX)
                return -EINVAL;
        if (!nghttp2_session_check_request_allowed(s->http2))
                return -ENOTCONN;
        grpc_frame_head(c->out, (uint32_t) q->len);
        if (q->len > 0)
                memcpy(c->out + GRPC_FRAME_HEAD, q->data, q->len);
        c->out_len = GRPC_FRAME_HEAD + q->len;
        c->out_at = c->in_len = 0;
        c->head = (struct grpc_head){ .has_status = false };
        c->error = 0;
        c->done = q->done;
        c->userdata = q->userdata;
        r = submit(c, q->method, q->timeout);
        if (r < 0)
                return r;
        c->state = CALL_OPEN;
        s->n_open++;
        return 0;
}

size_t grpc_session_open(const struct grpc_session *s) {
        return s->n_open;
}

/* --- Bytes ------------------------------------------------------------------------------------------- */

ssize_t grpc_session_output(struct grpc_session *s, const uint8_t **ret) {
        ssize_t n = nghttp2_session_mem_send(s->http2, ret);

        return n >= 0 ? n : n == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO;
}

int grpc_session_input(struct grpc_session *s, const uint8_t *data, size_t len) {
        ssize_t n;

        if (len > s->left)
                return -ENOBUFS;
        s->left -= len;
        n = nghttp2_session_mem_recv(s->http2, data, len);
        if (n == NGHTTP2_ERR_NOMEM)
                return -ENOMEM;
        if (n < 0 || (size_t) n != len)
                return -EPROTO;
        if (!nghttp2_session_want_read(s->http2))
                return s->goodbye ? -ECONNRESET : -EPROTO;
        return 0;
}

void grpc_session_reset_budget(struct grpc_session *s) {
        s->left = s->budget;
}

/* --- Life -------------------------------------------------------------------------------------------- */

static int make_session(struct grpc_session *s, nghttp2_session_callbacks *callbacks) {
        static const nghttp2_settings_entry settings[] = {
                { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
                { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW },
        };

        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_body);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
        if (nghttp2_session_client_new(&s->http2, callbacks, s) != 0)
                return -ENOMEM;
        if (nghttp2_submit_settings(s->http2, NGHTTP2_FLAG_NONE, settings, ELEMENTSOF(settings)) != 0 ||
            nghttp2_session_set_local_window_size(s->http2, NGHTTP2_FLAG_NONE, 0, WINDOW) != 0)
                return -ENOMEM;
        return 0;
}

int grpc_session_new(const struct grpc_session_options *o, struct grpc_session **ret) {
        _cleanup_(grpc_session_freep) struct grpc_session *s = calloc(1, sizeof(*s));
        nghttp2_session_callbacks *callbacks;
        int r;

        if (!s || nghttp2_session_callbacks_new(&callbacks) != 0)
                return -ENOMEM;
        for (size_t i = 0; i < GRPC_SESSION_CALLS_MAX; i++)
                s->calls[i].session = s;
        s->message_max = o->message_max;
        s->budget = s->left = o->budget;
        (void) snprintf(s->user_agent, sizeof(s->user_agent), "%s", o->user_agent);
        r = make_session(s, callbacks);
        nghttp2_session_callbacks_del(callbacks);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

struct grpc_session *grpc_session_free(struct grpc_session *s) {
        if (!s)
                return NULL;
        for (size_t i = 0; i < GRPC_SESSION_CALLS_MAX; i++) {
                s->calls[i].state = CALL_FREE;
                free(s->calls[i].in);
        }
        nghttp2_session_del(s->http2);
        free(s);
        return NULL;
}
