/* SPDX-License-Identifier: Apache-2.0 */
#include <microhttpd.h>

#include "http.h"
#include "log.h"
#include "server_turn.h"
#include "tls_peer.h"

#define FLUSH_TURNS 3                   /* of libmicrohttpd: take it up, write the header, write the body */
#define BODY_STEP   ((size_t) 2 * 1024) /* a usual push, compressed; doubled as needed */

struct http {
        struct MHD_Daemon *daemon;
        sd_event_source *io, *timer;
        bool running; /* inside MHD_run() */
        bool closed;  /* nobody is asked any more */
        struct http_options o;
        size_t held; /* bytes of bodies in memory */
};

/* What is known of a connection's peer: asked once, because a signature is slow to check. */
struct peer {
        struct server_credentials *credentials;
        bool checked, allowed, acts;
        char name[TLS_NAME_MAX], why[TLS_WHY_MAX];
};

/* One request while its body comes in, and until its reply. */
struct http_call {
        struct http *http;
        uint8_t *body;
        size_t len, size;
        uint64_t received;
        bool too_large, no_room;
        struct MHD_Connection *connection;
        bool answered; /* put off, and then brought, but not sent yet */
        struct http_reply reply;
};

static void forget_body(struct http_call *x) {
        free(x->body);
        x->http->held -= x->size;
        x->body = NULL;
        x->len = x->size = 0;
}

/* Memory grows with what was really sent, never with what was announced. */
static bool make_room(struct http_call *x, size_t more) {
        size_t size = MAX(x->size, BODY_STEP);
        uint8_t *body;

        while (size - x->len < more)
                size *= 2;
        if (size == x->size)
                return true;
        if (size - x->size > HTTP_BODIES_MAX - x->http->held)
                return false;
        body = realloc(x->body, size);
        if (!body)
                return false;
        x->http->held += size - x->size;
        x->body = body;
        x->size = size;
        return true;
}

static void take_body(struct http_call *x, const char *data, size_t len) {
        x->received += len;
        if (x->too_large || x->no_room)
                return;
        if (len > x->http->o.body_max - x->len)
                x->too_large = true;
        else if (!make_room(x, len))
                x->no_room = true;
        else {
                memcpy(x->body + x->len, data, len);
                x->len += len;
                return;
        }
        forget_body(x);
}

static bool announces_too_much(struct MHD_Connection *c) {
        const char *text = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

        return text && strtoull(text, NULL, 10) > HTTP_DISCARD_MAX;
}

void http_reply_clear(struct http_reply *reply) {
        if (reply->body && reply->release)
                reply->release(reply->body);
        else
                free(reply->body);
        reply->body = NULL;
}

static struct MHD_Response *make_response(const struct http_reply *reply) {
        if (reply->body && reply->release)
                return MHD_create_response_from_buffer_with_free_callback(reply->len, reply->body,
                                                                          reply->release);
        return MHD_create_response_from_buffer(reply->len, reply->body,
                                               reply->body ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result send_reply(struct MHD_Connection *c, struct http_reply *reply) {
        struct MHD_Response *m;
        enum MHD_Result r = MHD_YES;
        char seconds[16];

        m = make_response(reply);
        if (!m) {
                http_reply_clear(reply);
                return MHD_NO; /* closes the connection */
        }
        if (reply->content_type)
                r = MHD_add_response_header(m, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type);
        if (r == MHD_YES && reply->allow)
                r = MHD_add_response_header(m, MHD_HTTP_HEADER_ALLOW, reply->allow);
        (void) snprintf(seconds, sizeof(seconds), "%u", reply->retry_after);
        if (r == MHD_YES && reply->retry_after)
                r = MHD_add_response_header(m, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
        if (r == MHD_YES)
                r = MHD_queue_response(c, reply->status, m);
        MHD_destroy_response(m);
        return r;
}

/* Says in *q who calls, and what it may. */
static void check_caller(struct http *h, struct MHD_Connection *c, struct http_request *q) {
        const union MHD_ConnectionInfo *session = MHD_get_connection_info(
                                               c, MHD_CONNECTION_INFO_GNUTLS_SESSION),
                                       *context = MHD_get_connection_info(
                                               c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        struct peer *p = context ? context->socket_context : NULL;
        const char *const lists[] = { h->o.act ? h->o.act : h->o.allow, h->o.allow };
        size_t list = 0;

        q->may_act = !h->o.certificate;
        if (!h->o.certificate)
                return;
        q->denied = "no TLS session"; /* out of memory for one */
        if (!session || !session->tls_session || !p)
                return;
        if (!p->checked) {
                p->allowed = tls_check_peer(session->tls_session, lists, ELEMENTSOF(lists), &list, p->name, p->why) == 0;
                p->acts = p->allowed && list == 0 && h->o.act;
        }
        p->checked = true;
        q->denied = p->allowed ? NULL : p->why;
        q->name = p->allowed ? p->name : NULL;
        q->may_act = p->acts;
}

/* A connection is made with the newest files that were good. */
static void look_at_files(struct server_certificate *s) {
        const struct server_certificate_state *state = server_certificate_state(s);

        if (!server_certificate_look(s))
                return;
        if (state->error[0])
                log_warning("TLS: %s; the files of before stay in force", state->error);
        else
                log_info("TLS: the new files are in force: %s", server_certificate_path(s, TLS_CERT));
}

static void on_connection(void *userdata, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode how) {
        const union MHD_ConnectionInfo *session;
        struct server_certificate *s = userdata;
        struct peer *p = *context;

        if (how == MHD_CONNECTION_NOTIFY_CLOSED) {
                if (p)
                        p->credentials = server_credentials_detach(p->credentials);
                free(p);
                *context = NULL;
                return;
        }
        session = MHD_get_connection_info(c, MHD_CONNECTION_INFO_GNUTLS_SESSION);
        *context = p = calloc(1, sizeof(struct peer));
        if (!p || !session || !session->tls_session)
                return; /* server_certificate_none() ends its handshake */
        look_at_files(s);
        p->credentials = server_certificate_attach(s, session->tls_session);
}

static enum MHD_Result answer(struct http_call *x, struct MHD_Connection *c, const char *url,
                              const char *method) {
        const union MHD_ConnectionInfo *peer =
                MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        struct http_request q = {
                .method = method,
                .path = url,
                .body = x->body,
                .len = x->len,
                .too_large = x->too_large,
                .no_room = x->no_room,
                .peer = "?",
                .connection = c,
                .call = x,
        };
        struct http_reply reply = { 0 };

        if (peer && peer->client_addr)
                tcp_address_host(peer->client_addr, q.peer);
        check_caller(x->http, c, &q);
        if (x->http->closed)
                reply = (struct http_reply) { .status = MHD_HTTP_SERVICE_UNAVAILABLE, .retry_after = 1 };
        else
                x->http->o.handle(&q, &reply, x->http->o.userdata);
        if (reply.later) {
                x->connection = c;
                MHD_suspend_connection(c);
                return MHD_YES;
        }
        forget_body(x);
        return send_reply(c, &reply);
}

static enum MHD_Result send_put_off(struct http_call *x, struct MHD_Connection *c) {
        struct http_reply reply = x->reply;

        x->answered = false;
        x->reply.body = NULL;
        return send_reply(c, &reply);
}

static enum MHD_Result on_request(void *userdata, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *data, size_t *len,
                                  void **state) {
        struct http_call *x = *state;

        (void) version;
        if (!x) { /* the headers are there */
                x = calloc(1, sizeof(*x));
                if (!x)
                        return MHD_NO;
                x->http = userdata;
                *state = x;
                if (!announces_too_much(c))
                        return MHD_YES;
                x->too_large = true;
                return answer(x, c, url, method);
        }
        if (x->answered)
                return send_put_off(x, c);
        if (*len > 0) {
                take_body(x, data, *len);
                *len = 0;
                return x->received > HTTP_DISCARD_MAX ? MHD_NO : MHD_YES;
        }
        return answer(x, c, url, method);
}

static void on_completed(void *userdata, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode how) {
        struct http_call *x = *state;

        (void) userdata;
        (void) c;
        (void) how;
        if (!x)
                return;
        forget_body(x);
        http_reply_clear(&x->reply);
        free(x);
        *state = NULL;
}

__attribute__((format(printf, 2, 0))) static void on_log(void *userdata, const char *fmt, va_list ap) {
        struct http *h = userdata;
        char line[256];

        (void) vsnprintf(line, sizeof(line), fmt, ap);
        line[strcspn(line, "\n")] = '\0';
        log_debug("%s: %s", h->o.name, line);
}

static void turn(struct http *h) {
        int r;

        h->running = true;
        r = server_turn(h->daemon, h->timer);
        h->running = false;
        if (r < 0)
                (void) log_warning_errno(r, "%s: timer: %m", h->o.name);
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        (void) source;
        (void) fd;
        (void) events;
        turn(userdata);
        return 0;
}

static int on_timer(sd_event_source *source, uint64_t at, void *userdata) {
        (void) source;
        (void) at;
        turn(userdata);
        return 0;
}

static int start(struct http *h) {
        struct MHD_OptionItem secure[] = {
                { MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *) (intptr_t) server_certificate_none },
                { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *) (uintptr_t) TLS_PRIORITIES },
                { MHD_OPTION_NOTIFY_CONNECTION, (intptr_t) on_connection, h->o.certificate },
                { MHD_OPTION_END, 0, NULL },
        };
        unsigned flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME;

        if (h->o.certificate)
                flags |= MHD_USE_TLS;
        else
                secure[0] = (struct MHD_OptionItem) { MHD_OPTION_END, 0, NULL };
        h->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_log, h,
                                     MHD_OPTION_LISTEN_SOCKET, (MHD_socket) h->o.fd,
                                     MHD_OPTION_CONNECTION_LIMIT, h->o.connections,
                                     MHD_OPTION_CONNECTION_TIMEOUT, (unsigned) HTTP_TIMEOUT_S,
                                     MHD_OPTION_CONNECTION_MEMORY_LIMIT, HTTP_CONNECTION_MEMORY,
                                     MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
                                     MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, secure,
                                     MHD_OPTION_END);
        if (!h->daemon)
                return -EIO; /* libmicrohttpd says why in its log line only */
        h->o.fd = -1;        /* closed by MHD_stop_daemon() from now on */
        return 0;
}

void http_answer(struct http_call *call, const struct http_reply *reply) {
        struct http *h = call->http;
        int r;

        call->reply = *reply;
        call->answered = true;
        forget_body(call);
        MHD_resume_connection(call->connection);
        if (h->running)
                return;
        /* Not at once: many are answered in a row, and one turn serves them all. */
        r = sd_event_source_set_time(h->timer, 0);
        if (r >= 0)
                r = sd_event_source_set_enabled(h->timer, SD_EVENT_ONESHOT);
        if (r < 0)
                (void) log_warning_errno(r, "%s: timer: %m", h->o.name);
}

int http_new(sd_event *e, const struct http_options *o, struct http **ret) {
        _cleanup_(http_freep) struct http *h = calloc(1, sizeof(*h));
        const union MHD_DaemonInfo *info;
        int r;

        if (!h) {
                (void) close_fd(o->fd);
                return -ENOMEM;
        }
        h->o = *o;
        r = start(h);
        if (r < 0)
                return r;
        info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        if (!info)
                return -EIO;
        r = sd_event_add_io(e, &h->io, info->epoll_fd, EPOLLIN, on_io, h);
        if (r >= 0)
                r = sd_event_source_set_description(h->io, o->name);
        if (r >= 0)
                r = sd_event_add_time_relative(e, &h->timer, CLOCK_MONOTONIC, 0, USEC_PER_MSEC, on_timer, h);
        if (r >= 0)
                r = sd_event_source_set_description(h->timer, o->name);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(h);
        return 0;
}

void http_close(struct http *h) {
        if (h)
                h->closed = true;
}

struct http *http_free(struct http *h) {
        if (!h)
                return NULL;
        (void) sd_event_source_unref(h->io);
        (void) sd_event_source_unref(h->timer);
        for (unsigned i = 0; h->daemon && i < FLUSH_TURNS; i++)
                (void) MHD_run(
                        h->daemon); /* what was answered last goes out as far as it goes without waiting */
        if (h->daemon)
                MHD_stop_daemon(h->daemon);
        (void) close_fd(h->o.fd);
        free(h);
        return NULL;
}

const char *http_header(const struct http_request *q, const char *name) {
        return MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, name);
}

struct parameters {
        int (*visit)(const char *key, const char *value, void *userdata);
        void *userdata;
        int r;
};

static enum MHD_Result on_parameter(void *userdata, enum MHD_ValueKind kind, const char *key,
                                    const char *value) {
        struct parameters *p = userdata;

        (void) kind;
        p->r = p->visit(key, value ? value : "", p->userdata);
        return p->r == 0 ? MHD_YES : MHD_NO;
}

int http_query(const struct http_request *q,
               int (*visit)(const char *key, const char *value, void *userdata), void *userdata) {
        struct parameters p = { .visit = visit, .userdata = userdata };

        (void) MHD_get_connection_values(q->connection, MHD_GET_ARGUMENT_KIND, on_parameter, &p);
        return p.r;
}
