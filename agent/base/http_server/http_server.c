/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <sys/epoll.h>
#include <time.h>

#include "http_connection.h"
#include "http_zeros.h"
#include "log.h"
#include "loop_timer.h"

#define FLUSH_TURNS 3                   /* of libmicrohttpd: take it up, write the header, write the body */
#define BODY_STEP   ((size_t) 2 * 1024) /* a usual push, compressed; doubled as needed */

struct http_call {
        struct http_server *server;
        struct MHD_Connection *mhd;
        struct http_connection *connection;
        struct http_call *next, **previous;
        uint8_t *body;
        size_t len, size, keep; /* keep: at most this much of it */
        uint64_t received, discard_max;
        bool too_large, no_room;
        enum { CALL_NEW, CALL_WAITING, CALL_ANSWERED } state;
        struct http_call **slot; /* who holds it; valid while it waits */
        struct http_reply reply;
};

#define ROUNDS 16 /* of libmicrohttpd, before the loop looks at others: 256 KiB to each that takes them */

struct http_server {
        struct MHD_Daemon *daemon;
        sd_event_source *io, *timer;
        bool running; /* inside MHD_run() */
        bool closed;  /* nobody is asked any more */
        struct http_server_options o;
        struct http_connections connections;
        struct http_call *calls;
        size_t held; /* bytes of bodies in memory */
};

/* --- The loop ------------------------------------------------------------------------------------------ */

static unsigned count_connections(struct MHD_Daemon *d) {
        const union MHD_DaemonInfo *i = MHD_get_daemon_info(d, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

        return i ? i->num_connections : 0;
}

static int set_timer(struct http_server *h) {
        MHD_UNSIGNED_LONG_LONG ms;
        bool any = MHD_get_timeout(h->daemon, &ms) == MHD_YES;

        if (any && ms == 0) /* the next record of TLS: from now on it would wait for the timer's accuracy */
                return loop_timer_at(h->timer, 0);
        return loop_timer_in(h->timer, any ? (usec_t) ms * USEC_PER_MSEC : USEC_INFINITY);
}

/* Lets libmicrohttpd do all that can be done now. */
static void turn(struct http_server *h) {
        unsigned before, after = count_connections(h->daemon), rounds = 0;
        MHD_UNSIGNED_LONG_LONG ms;
        int r;

        h->running = true;
        /*
         * At its limit of connections libmicrohttpd stops to listen, and begins again at the start of a run
         * (daemon.c, MHD_epoll()): when the run in which the last of them ended were the last one, nobody
         * would be heard any more. Of what is long a run sends one record of TLS, 16 KiB.
         */
        do {
                before = after;
                (void) MHD_run(h->daemon); /* fails only when the daemon has a thread of its own */
                after = count_connections(h->daemon);
        } while (after < before ||
                 (++rounds < ROUNDS && MHD_get_timeout(h->daemon, &ms) == MHD_YES && ms == 0));
        h->running = false;
        r = set_timer(h);
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

/* --- The body of a request ----------------------------------------------------------------------------- */

static void forget_body(struct http_call *x) {
        free(x->body);
        x->server->held -= x->size;
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
        if (size - x->size > x->server->o.bodies_max - x->server->held)
                return false;
        body = realloc(x->body, size);
        if (!body)
                return false;
        x->server->held += size - x->size;
        x->body = body;
        x->size = size;
        return true;
}

static void keep_body(struct http_call *x, const char *data, size_t len) {
        x->received += len;
        if (x->too_large || x->no_room)
                return;
        if (len > x->keep - x->len)
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

static uint64_t announced(struct MHD_Connection *c) {
        const char *text = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

        return text ? strtoull(text, NULL, 10) : 0;
}

/* --- The reply ----------------------------------------------------------------------------------------- */

void http_reply_clear(struct http_reply *reply) {
        if (reply->body && reply->release)
                reply->release(reply->body);
        else
                free(reply->body);
        reply->body = NULL;
        free(reply->location);
        reply->location = NULL;
}

static struct MHD_Response *make_response(struct http_reply *reply) {
        struct MHD_Response *m;

        if (reply->zeros > 0)
                return http_zeros(reply);
        if (reply->body && reply->release)
                m = MHD_create_response_from_buffer_with_free_callback(reply->len, reply->body,
                                                                       reply->release);
        else
                m = MHD_create_response_from_buffer(reply->len, reply->body,
                                                    reply->body ? MHD_RESPMEM_MUST_FREE
                                                                : MHD_RESPMEM_PERSISTENT);
        if (m)
                reply->body = NULL;
        return m;
}

static bool add_headers(struct MHD_Response *m, const struct http_reply *reply, bool last) {
        char seconds[16];
        const struct {
                const char *name, *value;
        } headers[] = {
                { MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type },
                { MHD_HTTP_HEADER_ALLOW, *reply->allow ? reply->allow : NULL },
                { MHD_HTTP_HEADER_LOCATION, reply->location },
                { MHD_HTTP_HEADER_RETRY_AFTER, reply->retry_after > 0 ? seconds : NULL },
                { MHD_HTTP_HEADER_CONNECTION, last ? "close" : NULL },
        };

        (void) snprintf(seconds, sizeof(seconds), "%u", reply->retry_after);
        for (size_t i = 0; i < ELEMENTSOF(headers); i++)
                if (headers[i].value &&
                    MHD_add_response_header(m, headers[i].name, headers[i].value) != MHD_YES)
                        return false;
        for (const char *const *h = reply->headers; h && h[0]; h += 2)
                if (MHD_add_response_header(m, h[0], h[1]) != MHD_YES)
                        return false;
        return true;
}

/* MHD_NO closes the connection. */
static enum MHD_Result send_reply(struct http_call *x) {
        struct http_connections *all = &x->server->connections;
        struct MHD_Response *m = make_response(&x->reply);
        enum MHD_Result r = MHD_NO;

        x->state = CALL_ANSWERED;
        forget_body(x);
        http_connection_enter(all, x->connection, HTTP_PHASE_ANSWER);
        if (m && add_headers(m, &x->reply, http_connection_is_old(all, x->connection)))
                r = MHD_queue_response(x->mhd, x->reply.status, m);
        if (m)
                MHD_destroy_response(m);
        http_reply_clear(&x->reply);
        return r;
}

void http_hold(const struct http_request *q, struct http_call **slot) {
        q->call->slot = slot;
        *slot = q->call;
}

/* Whoever holds the call has nobody to answer any more. */
static void give_call_up(struct http_call *x) {
        assert(x->slot); /* else it had to be answered before */
        *x->slot = NULL;
        x->state = CALL_NEW;
}

void http_answer(struct http_call *x, const struct http_reply *reply) {
        struct http_reply unwanted = *reply;
        struct http_server *h;
        bool suspended;
        int r;

        if (!x) {
                http_reply_clear(&unwanted);
                return;
        }
        h = x->server;
        suspended = x->state == CALL_WAITING;
        x->reply = *reply;
        x->state = CALL_ANSWERED;
        if (!suspended)
                return; /* inside the handler: handle() sends it */
        forget_body(x);
        MHD_resume_connection(x->mhd);
        if (h->running)
                return;
        /* Not at once: many are answered in a row, and one turn serves them all. */
        r = loop_timer_at(h->timer, 0);
        if (r < 0)
                (void) log_warning_errno(r, "%s: timer: %m", h->o.name);
}

/* --- The request --------------------------------------------------------------------------------------- */

static struct http_request request_of(struct http_call *x, const char *path, const char *method) {
        struct http_request q = {
                .method = method,
                .path = path,
                .body = x->body,
                .len = x->len,
                .received = x->received,
                .too_large = x->too_large,
                .no_room = x->no_room,
                .connection = x->mhd,
                .call = x,
        };

        http_connection_identify(&x->server->connections, x->connection, &q);
        return q;
}

static enum MHD_Result handle(struct http_call *x, const struct http_request *q) {
        struct http_server *h = x->server;
        struct http_reply reply = { 0 };

        if (h->closed || http_connection_is_crowded(x->connection))
                reply = (struct http_reply) { .status = MHD_HTTP_SERVICE_UNAVAILABLE, .retry_after = 1 };
        else
                h->o.handle(q, &reply, h->o.userdata);
        if (!reply.later)
                x->reply = reply;
        else if (x->state == CALL_NEW) {
                x->state = CALL_WAITING;
                http_connection_enter(&h->connections, x->connection, HTTP_PHASE_WAITS);
                MHD_suspend_connection(x->mhd);
                return MHD_YES;
        }
        return send_reply(x);
}

static struct http_call *call_new(struct http_server *h, struct MHD_Connection *c) {
        struct http_connection *connection = http_connection_of(c);
        struct http_call *x = connection ? calloc(1, sizeof(*x)) : NULL;

        if (!x)
                return NULL;
        *x = (struct http_call){
                .server = h, .mhd = c, .connection = connection, .next = h->calls, .previous = &h->calls
        };
        if (x->next)
                x->next->previous = &x->next;
        h->calls = x;
        return x;
}

/* The header is here, the body may follow. */
static enum MHD_Result begin_call(struct http_call *x, const char *path, const char *method) {
        const struct http_server_options *o = &x->server->o;
        struct http_request q = request_of(x, path, method);
        uint64_t len = announced(x->mhd);

        if (o->body_time > 0)
                http_connection_enter(&x->server->connections, x->connection, HTTP_PHASE_BODY);
        x->discard_max = q.denied ? MIN(HTTP_STRANGER_DISCARD, o->discard_max) : o->discard_max;
        if (len > x->discard_max) {
                q.too_large = true;
                q.received = len;
                return handle(x, &q);
        }
        x->keep = q.denied || http_connection_is_crowded(x->connection) ||
                                  (o->takes_body && !o->takes_body(&q, o->userdata))
                          ? 0
                          : o->body_max;
        return MHD_YES;
}

static enum MHD_Result on_request(void *userdata, struct MHD_Connection *c, const char *path,
                                  const char *method, const char *version, const char *data, size_t *len,
                                  void **state) {
        struct http_call *x = *state;
        struct http_request q;

        (void) version;
        if (!x) {
                *state = x = call_new(userdata, c);
                return x ? begin_call(x, path, method) : MHD_NO;
        }
        if (*len > 0 && x->state == CALL_NEW) {
                keep_body(x, data, *len);
                *len = 0;
                return x->received > x->discard_max ? MHD_NO : MHD_YES;
        }
        switch (x->state) {
        case CALL_NEW:
                q = request_of(x, path, method);
                return handle(x, &q);
        case CALL_ANSWERED:
                return send_reply(x);
        case CALL_WAITING:
                break;
        }
        return MHD_YES;
}

static void on_completed(void *userdata, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why) {
        struct http_server *h = userdata;
        struct http_call *x = *state;

        (void) c;
        (void) why;
        if (!x)
                return;
        if (x->state == CALL_WAITING)
                give_call_up(x);
        http_connection_enter(&h->connections, x->connection, HTTP_PHASE_HEADER);
        *x->previous = x->next;
        if (x->next)
                x->next->previous = x->previous;
        forget_body(x);
        http_reply_clear(&x->reply);
        free(x);
        *state = NULL;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 0))) static void on_log(void *userdata, const char *fmt, va_list ap) {
        struct http_server *h = userdata;
        char line[256];

        (void) vsnprintf(line, sizeof(line), fmt, ap);
        line[strcspn(line, "\n")] = '\0';
        log_debug("%s: %s", h->o.name, line);
}

static int start_daemon(struct http_server *h) {
        const char *priorities = h->o.tls12 ? TLS_PRIORITIES_12 : TLS_PRIORITIES;
        struct MHD_OptionItem secure[] = {
                { MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *) (intptr_t) server_certificate_none },
                { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *) (uintptr_t) priorities },
                { MHD_OPTION_END, 0, NULL },
        };
        unsigned flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME;

        if (h->o.certificate)
                flags |= MHD_USE_TLS;
        else
                secure[0] = (struct MHD_OptionItem) { MHD_OPTION_END, 0, NULL };
        h->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, h,
                                     MHD_OPTION_EXTERNAL_LOGGER, on_log, h, /* first */
                                     MHD_OPTION_LISTEN_SOCKET, (MHD_socket) h->o.fd,
                                     MHD_OPTION_CONNECTION_LIMIT, h->o.connections,
                                     MHD_OPTION_CONNECTION_MEMORY_LIMIT, h->o.header_max,
                                     MHD_OPTION_NOTIFY_CONNECTION, http_connections_notify, &h->connections,
                                     MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
                                     MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, secure,
                                     MHD_OPTION_END);
        if (!h->daemon)
                return -EIO; /* libmicrohttpd says why in its log line only */
        h->o.fd = -1;        /* closed by MHD_stop_daemon() from now on */
        return 0;
}

static int hang_in(struct http_server *h, sd_event *e) {
        const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        int r;

        if (!info)
                return -EIO;
        r = sd_event_add_io(e, &h->io, info->epoll_fd, EPOLLIN, on_io, h);
        if (r >= 0)
                r = sd_event_source_set_description(h->io, h->o.name);
        if (r >= 0)
                r = loop_timer_new(e, CLOCK_MONOTONIC, USEC_PER_MSEC, h->o.name, on_timer, h, &h->timer);
        return r < 0 ? r : loop_timer_in(h->timer, 0);
}

int http_server_new(sd_event *e, const struct http_server_options *o, struct http_server **ret) {
        _cleanup_(http_server_freep) struct http_server *h = calloc(1, sizeof(*h));
        int r;

        if (!h) {
                (void) close_fd(o->fd);
                return -ENOMEM;
        }
        h->o = *o;
        r = http_connections_init(&h->connections, e, &h->o);
        if (r >= 0)
                r = start_daemon(h);
        if (r >= 0)
                r = hang_in(h, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(h);
        return 0;
}

void http_server_close(struct http_server *h) {
        if (h)
                h->closed = true;
}

struct http_server *http_server_free(struct http_server *h) {
        if (!h)
                return NULL;
        h->io = sd_event_source_disable_unref(h->io);
        h->running = true; /* who is answered now needs no timer */
        for (unsigned i = 0; h->daemon && i < FLUSH_TURNS; i++)
                (void) MHD_run(h->daemon);
        for (struct http_call *x = h->calls; x; x = x->next)
                if (x->state == CALL_WAITING) { /* a suspended connection would hold the daemon's end */
                        give_call_up(x);
                        MHD_resume_connection(x->mhd);
                }
        h->timer = sd_event_source_disable_unref(h->timer);
        if (h->daemon)
                MHD_stop_daemon(h->daemon);
        http_connections_clear(&h->connections);
        (void) close_fd(h->o.fd);
        free(h);
        return NULL;
}
