/* SPDX-License-Identifier: Apache-2.0 */
#include "grow.h"
#include "grpc_state.h"

/* --- The end of a call ------------------------------------------------------------------------------ */

void grpc_clear(struct grpc_call *c) {
        c->state = CALL_FREE;
        c->serial++;
        c->connection = NULL;
        c->stream = 0;
        c->http = 0;
        c->too_long = c->unread = c->open = c->closed = c->refused = c->reset = false;
        free(TAKE_PTR(c->in));
        free(TAKE_PTR(c->out));
        c->in_len = c->in_size = c->out_len = c->out_at = 0;
}

/* The bytes are taken along, so that done may start the next call in this one's place. */
static void finish(struct grpc_call *c, const struct grpc_answer *a) {
        void (*done)(const struct grpc_answer *, void *) = c->done;
        uint8_t *in = TAKE_PTR(c->in);
        void *userdata = c->userdata;

        grpc_clear(c);
        done(a, userdata);
        free(in);
}

void grpc_fail(struct grpc_call *c, enum grpc_outcome outcome, enum grpc_status status, const char *why) {
        char text[GRPC_WHY_MAX];

        (void) snprintf(text, sizeof(text), "%s", why);
        finish(c, &(struct grpc_answer){ .outcome = outcome, .status = status, .local = true, .why = text });
}

/*
 * Nothing of the request was looked at. With TLS 1.3 a server's refusal of our certificate comes after the
 * handshake, when the request is on its way, and before anything else.
 */
static bool never_sent(const struct grpc_call *c) {
        const struct grpc_connection *n = c->connection;

        return c->refused || n->phase != PHASE_OPEN || (n->alerted && !n->heard_any);
}

/* Whether the server's word means that nothing was done. UNAVAILABLE does not: etcd says it of timeouts,
 * too. */
static enum grpc_outcome outcome_of(enum grpc_status s) {
        switch (s) {
        case GRPC_OK:
                return GRPC_ANSWERED;
        case GRPC_INVALID_ARGUMENT:
        case GRPC_NOT_FOUND:
        case GRPC_ALREADY_EXISTS:
        case GRPC_PERMISSION_DENIED:
        case GRPC_RESOURCE_EXHAUSTED:
        case GRPC_FAILED_PRECONDITION:
        case GRPC_OUT_OF_RANGE:
        case GRPC_UNIMPLEMENTED:
        case GRPC_UNAUTHENTICATED:
                return GRPC_REFUSED;
        case GRPC_CANCELLED:
        case GRPC_UNKNOWN:
        case GRPC_DEADLINE_EXCEEDED:
        case GRPC_ABORTED:
        case GRPC_INTERNAL:
        case GRPC_UNAVAILABLE:
        case GRPC_DATA_LOSS:
        case _GRPC_STATUS_MAX:
                break;
        }
        return GRPC_UNCERTAIN;
}

static void end_refused(struct grpc_call *c) {
        enum grpc_status s = c->head.status;
        char why[GRPC_WHY_MAX + 32];

        (void) snprintf(why, sizeof(why), "%s: %s", grpc_status_name(s),
                        c->head.message[0] ? c->head.message : "no reason given");
        finish(c, &(struct grpc_answer){ .outcome = outcome_of(s), .status = s, .why = why });
}

static int open_frame(struct grpc_call *c, const struct grpc_frame *f, uint8_t **unpacked,
                      const uint8_t **data, size_t *len) {
        *data = f->data;
        *len = f->len;
        if (!f->packed)
                return 0;
        if (!c->head.gzip)
                return -EBADMSG;
        return grpc_gunzip(f->data, f->len, c->channel->message_max, unpacked, len);
}

static void end_unary(struct grpc_call *c) {
        _cleanup_free_ uint8_t *unpacked = NULL;
        struct grpc_answer a = { .outcome = GRPC_ANSWERED, .why = "" };
        struct grpc_frame f;
        int r;

        r = grpc_frame_next(c->in, c->in_len, c->channel->message_max, &f);
        if (r <= 0 || c->in_len != GRPC_FRAME_HEAD + f.len)
                return grpc_fail(c, GRPC_UNCERTAIN, GRPC_INTERNAL,
                                 r == 0 ? "an OK without a whole message"
                                        : "an answer that is no message of gRPC");
        r = open_frame(c, &f, &unpacked, &a.data, &a.len);
        if (r < 0)
                return grpc_fail(c, GRPC_UNCERTAIN, GRPC_INTERNAL,
                                 "a packed answer that cannot be unpacked");
        if (unpacked)
                a.data = unpacked;
        finish(c, &a);
}

static void end_broken(struct grpc_call *c, const char *error) {
        if (never_sent(c))
                grpc_fail(c, GRPC_UNSENT, GRPC_UNAVAILABLE, error);
        else
                grpc_fail(c, GRPC_UNCERTAIN, GRPC_UNAVAILABLE, error);
}

static void end_without_status(struct grpc_call *c, const char *error) {
        char text[GRPC_WHY_MAX];

        if (c->too_long)
                return grpc_fail(c, GRPC_UNCERTAIN, GRPC_RESOURCE_EXHAUSTED,
                                 "the answer is longer than is taken");
        if (error)
                return end_broken(c, error);
        if (c->http == 200) {
                grpc_fail(c, GRPC_UNCERTAIN, GRPC_INTERNAL, "the answer ended without a status");
                return;
        }
        (void) snprintf(text, sizeof(text), "HTTP status %ld: not a server of gRPC", c->http);
        /* who does not know gRPC did nothing; a proxy may have lost the answer of one who does */
        grpc_fail(c, c->http >= 400 && c->http < 500 ? GRPC_REFUSED : GRPC_UNCERTAIN,
                  grpc_status_of_http(c->http), text);
}

static bool deliver(struct grpc_call *c);

static void end(struct grpc_call *c) {
        const char *error = NULL;

        if (!c->closed)
                error = c->connection->why;
        else if (c->reset)
                error = c->refused ? "the server takes no more calls" : "the server broke the call off";
        if (c->message && c->in_len > 0 && !c->too_long && !deliver(c))
                return;
        if (c->too_long || !c->head.has_status || (c->head.status == GRPC_OK && error))
                end_without_status(c, error);
        else if (c->head.status != GRPC_OK)
                end_refused(c);
        else if (!c->head.is_grpc)
                grpc_fail(c, GRPC_UNCERTAIN, GRPC_INTERNAL, "an answer that is not of gRPC");
        else if (!c->message)
                end_unary(c);
        else if (c->in_len > 0)
                grpc_fail(c, GRPC_UNCERTAIN, GRPC_INTERNAL, "the stream ended inside of a message");
        else
                finish(c, &(struct grpc_answer){ .outcome = GRPC_ANSWERED, .why = "" });
}

void grpc_call_settle(struct grpc_call *c) {
        if (c->state != CALL_AT_WORK)
                return;
        if (c->closed || c->connection->failed)
                return end(c);
        if (!c->unread)
                return;
        c->unread = false;
        if (c->message)
                (void) deliver(c); /* gone or not: nothing more is done with it here */
}

/*
 * The connection is believed in if anything came by it of late: then it was this call alone. And once also if the
 * other end has taken all that was sent: it may be slow, and with a new connection it would have more to do.
 */
void grpc_call_late(struct grpc_call *c) {
        struct grpc_connection *n = c->connection;
        bool silent = n->heard + c->deadline / 2 < grpc_now(c->channel);

        if (n->phase == PHASE_OPEN && silent && (n->late || grpc_connection_has_unacknowledged(n)))
                grpc_connection_retire(n);
        n->late = silent;
        grpc_streams_forget(c);
        if (n->phase != PHASE_OPEN)
                grpc_fail(c, GRPC_UNSENT, GRPC_UNAVAILABLE, "timeout: there was no connection in time");
        else
                grpc_fail(c, GRPC_UNCERTAIN, GRPC_DEADLINE_EXCEEDED, "timeout: no answer in time");
}

/* --- Bytes that come in ----------------------------------------------------------------------------- */

int grpc_take_body(struct grpc_call *c, const uint8_t *data, size_t len) {
        size_t max = c->channel->message_max + GRPC_FRAME_HEAD + (c->message ? UNREAD_MAX : 0);
        struct grpc_frame f;

        /* the second: not read to its end to find that out */
        c->too_long = len > max - c->in_len || grow(&c->in, &c->in_size, c->in_len + len, 1) < 0;
        if (!c->too_long) {
                memcpy(c->in + c->in_len, data, len);
                c->in_len += len;
                c->unread = true;
                c->too_long = grpc_frame_next(c->in, c->in_len, c->channel->message_max, &f) == -EMSGSIZE;
        }
        return c->too_long ? -E2BIG : 0;
}

static void lose(struct grpc_call *c, const char *why) {
        grpc_streams_forget(c);
        grpc_fail(c, GRPC_UNCERTAIN, GRPC_INTERNAL, why);
}

/* Hands over a stream's whole messages. False: the call is gone, by its own doing or ours. */
static bool deliver(struct grpc_call *c) {
        unsigned serial = c->serial;
        size_t at = 0;

        for (;;) {
                _cleanup_free_ uint8_t *unpacked = NULL;
                const uint8_t *data;
                struct grpc_frame f;
                size_t len;
                int r;

                r = grpc_frame_next(c->in + at, c->in_len - at, c->channel->message_max, &f);
                if (r > 0)
                        r = open_frame(c, &f, &unpacked, &data, &len) < 0 ? -EBADMSG : 1;
                if (r < 0) {
                        lose(c, r == -EMSGSIZE ? "a message is longer than is taken"
                                               : "what came is no message of gRPC");
                        return false;
                }
                if (r == 0)
                        break;
                at += GRPC_FRAME_HEAD + f.len;
                c->message(unpacked ? unpacked : data, len, c->userdata);
                if (c->serial != serial)
                        return false;
        }
        memmove(c->in, c->in + at, c->in_len - at);
        c->in_len -= at;
        return true;
}
