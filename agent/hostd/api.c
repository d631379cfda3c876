/* SPDX-License-Identifier: Apache-2.0 */
#include <microhttpd.h>
#include <sys/epoll.h>
#include <time.h>

#include "api_local.h"
#include "api_tls.h"
#include "log.h"
#include "server_turn.h"

#define FLUSH_TURNS 3 /* of libmicrohttpd: take it up, write the header, write the body */

struct api_call {
        struct api *api;
        struct MHD_Connection *connection;
        struct api_call *next, **previous;
        struct api_answer answer;
        size_t received; /* bytes of the request's body */
        char *body; /* what of it is kept, for a call that reads it */
        size_t body_len;
        enum { CALL_NEW, CALL_WAITING, CALL_ANSWERED } state;
};

struct api {
        struct MHD_Daemon *daemon;
        struct api_tls *tls; /* NULL: a Unix socket, */
        struct api_local *local; /* and this is it */
        sd_event_source *io, *timer, *turn;
        const struct api_handlers *handlers;
        void *userdata;
        struct api_call *calls;
};

static void run(struct api *a) {
        int r = server_turn(a->daemon, a->timer);

        if (r < 0)
                (void) log_warning_errno(r, "idle API connections may stay open: %m");
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        (void) source;
        (void) fd;
        (void) revents;
        run(userdata);
        return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source;
        (void) usec;
        run(userdata);
        return 0;
}

static int on_turn(sd_event_source *source, void *userdata) {
        (void) source;
        run(userdata);
        return 0;
}

static enum MHD_Result send_answer(struct api *a, struct MHD_Connection *c, struct api_answer *answer) {
        struct MHD_Response *response;
        enum MHD_Result r;

        response = MHD_create_response_from_buffer(answer->len, answer->body, MHD_RESPMEM_MUST_FREE);
        if (!response)
                return MHD_NO;
        answer->body = NULL;
        r = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
        if (r == MHD_YES && a->tls && api_tls_answers(a->tls, c))
                r = MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
        if (r == MHD_YES && answer->allow[0])
                r = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
        if (r == MHD_YES && answer->retry_after > 0) {
                char seconds[16];

                (void) snprintf(seconds, sizeof(seconds), "%u", answer->retry_after);
                r = MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
        }
        if (!a->tls)
                api_local_answers(a->local, c);
        if (r == MHD_YES)
                r = MHD_queue_response(c, answer->status, response);
        MHD_destroy_response(response);
        return r;
}

const char *api_argument(const struct api_request *r, const char *name) {
        return MHD_lookup_connection_value(r->call->connection, MHD_GET_ARGUMENT_KIND, name);
}

struct visit {
        int (*visit)(const char *name, void *userdata);
        void *userdata;
        int r;
};

static enum MHD_Result on_argument(void *userdata, enum MHD_ValueKind kind, const char *name,
                                   const char *value) {
        struct visit *v = userdata;

        (void) kind;
        (void) value;
        v->r = v->visit(name, v->userdata);
        return v->r == 0 ? MHD_YES : MHD_NO;
}

int api_arguments(const struct api_request *r, int (*visit)(const char *name, void *userdata),
                  void *userdata) {
        struct visit v = { .visit = visit, .userdata = userdata };

        (void) MHD_get_connection_values(r->call->connection, MHD_GET_ARGUMENT_KIND, on_argument, &v);
        return v.r;
}

const char *api_header(const struct api_request *r, const char *name) {
        return MHD_lookup_connection_value(r->call->connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result dispatch(struct api_call *call, const char *method, const char *path) {
        struct api *a = call->api;
        const struct ucred *peer = a->tls ? NULL : api_local_peer(call->connection);
        struct api_request request = {
                .method = method,
                .path = path,
                .peers = MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, "peer"),
                .call = call,
                .body = call->body,
                .body_len = call->body_len,
        };

        if (a->tls)
                request.denied = api_tls_identify(a->tls, call->connection, &request.caller);
        else if (peer)
                request.caller.peer = *peer;
        else
                return MHD_NO; /* it was turned away */
        call->state = CALL_WAITING;
        if (a->handlers->request(&request, &call->answer, a->userdata) == 0) {
                call->state = CALL_ANSWERED;
                return send_answer(a, call->connection, &call->answer);
        }
        if (call->state != CALL_WAITING) /* answered before it could wait */
                return send_answer(a, call->connection, &call->answer);
        if (a->tls)
                api_tls_waits(a->tls, call->connection);
        else
                api_local_waits(a->local, call->connection);
        MHD_suspend_connection(call->connection);
        return MHD_YES;
}

static enum MHD_Result refuse_body(struct api_call *call) {
        static const char text[] = "{\"error\":\"no call has so long a body\",\"remedy\":\"arguments go behind a "
                                   "question mark: docs/api.md\"}";

        call->state = CALL_ANSWERED;
        call->answer = (struct api_answer) {
                .status = 413, .type = "application/json", .body = strdup(text), .len = sizeof(text) - 1
        };
        return call->answer.body ? send_answer(call->api, call->connection, &call->answer) : MHD_NO;
}

/* Past the limit it is refused as a whole: nothing more is kept. */
static int keep_body(struct api_call *call, const char *data, size_t len) {
        char *grown;

        if (call->received > API_BODY_MAX)
                return 0;
        grown = realloc(call->body, call->body_len + len);
        if (!grown)
                return -ENOMEM;
        memcpy(grown + call->body_len, data, len);
        call->body = grown;
        call->body_len += len;
        return 0;
}

static bool announces_too_much(struct MHD_Connection *c) {
        const char *text = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

        return text && strtoull(text, NULL, 10) > API_BODY_MAX;
}

static enum MHD_Result on_request(void *userdata, struct MHD_Connection *c, const char *path,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **state) {
        struct api *a = userdata;
        struct api_call *call = *state;

        (void) version;
        if (!call) { /* the header is here; the body may follow */
                call = calloc(1, sizeof(*call));
                if (!call)
                        return MHD_NO;
                *call = (struct api_call){
                        .api = a, .connection = c, .next = a->calls, .previous = &a->calls
                };
                if (call->next)
                        call->next->previous = &call->next;
                a->calls = call;
                *state = call;
                return announces_too_much(c) ? refuse_body(call) : MHD_YES;
        }
        if (*upload_len > 0) {
                call->received += *upload_len;
                if (a->handlers->takes_body && a->handlers->takes_body(method, path) &&
                    keep_body(call, upload, *upload_len) < 0)
                        return MHD_NO;
                *upload_len = 0;
                return call->received <= API_DISCARD_MAX ? MHD_YES : MHD_NO;
        }
        switch (call->state) {
        case CALL_NEW:
                if (call->received > API_BODY_MAX)
                        return refuse_body(call);
                return dispatch(call, method, path);
        case CALL_ANSWERED:
                return send_answer(a, c, &call->answer);
        case CALL_WAITING:
                break;
        }
        return MHD_YES;
}

static void on_completed(void *userdata, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why) {
        struct api *a = userdata;
        struct api_call *call = *state;

        (void) why;
        if (a->tls)
                api_tls_done(a->tls, c);
        else
                api_local_done(a->local, c);
        if (!call)
                return;
        if (call->state == CALL_WAITING)
                a->handlers->abandoned(call, a->userdata);
        *call->previous = call->next;
        if (call->next)
                call->next->previous = call->previous;
        free(call->answer.body);
        free(call->body);
        free(call);
        *state = NULL;
}

void api_call_answer(struct api_call *call, const struct api_answer *answer) {
        const union MHD_ConnectionInfo *info;

        call->answer = *answer;
        call->state = CALL_ANSWERED;
        info = MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CONNECTION_SUSPENDED);
        if (!info || info->suspended == 0)
                return; /* answered inside the request handler: dispatch() sends it */
        MHD_resume_connection(call->connection);
        /* Not from here: the caller may stand inside a handler of its own. */
        if (sd_event_source_set_enabled(call->api->turn, SD_EVENT_ONESHOT) < 0)
                log_warning("an API answer is sent at the next change only");
}

static int hang_in(struct api *a, sd_event *e) {
        const union MHD_DaemonInfo *info = MHD_get_daemon_info(a->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        int r;

        if (!info)
                return -EOPNOTSUPP;
        r = sd_event_add_io(e, &a->io, info->epoll_fd, EPOLLIN, on_io, a);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(a->io, "api");
        r = sd_event_add_time(e, &a->timer, CLOCK_BOOTTIME, USEC_INFINITY, USEC_PER_MSEC, on_timer, a);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(a->timer, "api-timeout");
        r = sd_event_add_defer(e, &a->turn, on_turn, a);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(a->turn, "api-turn");
        return sd_event_source_set_enabled(a->turn, SD_EVENT_OFF);
}

int api_new(sd_event *e, int listen_fd, struct api_tls *tls, const struct api_handlers *h, void *userdata,
            struct api **ret) {
        struct MHD_OptionItem more[API_OPTIONS] = { { .option = MHD_OPTION_END } };
        _cleanup_close_ int fd = listen_fd;
        _cleanup_(api_freep) struct api *a = calloc(1, sizeof(*a));
        unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
        int r;

        if (!a)
                return -ENOMEM;
        a->handlers = h;
        a->userdata = userdata;
        a->tls = tls;
        if (tls) {
                api_tls_mhd_options(tls, more);
                flags |= MHD_USE_TLS;
        } else {
                r = api_local_new(e, &a->local);
                if (r < 0)
                        return r;
                api_local_mhd_options(a->local, more);
        }
        a->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, a, MHD_OPTION_LISTEN_SOCKET, fd,
                                     MHD_OPTION_NOTIFY_COMPLETED, on_completed, a,
                                     MHD_OPTION_CONNECTION_LIMIT,
                                     (unsigned) (tls ? API_TLS_CONNECTIONS : API_LOCAL_LIMIT),
                                     MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) API_HEADER_MAX,
                                     MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, more,
                                     MHD_OPTION_END);
        if (!a->daemon)
                return -EIO;
        fd = -1; /* closed by the daemon */
        r = hang_in(a, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(a);
        return 0;
}

struct api *api_free(struct api *a) {
        if (!a)
                return NULL;
        for (unsigned i = 0; a->daemon && i < FLUSH_TURNS; i++)
                (void) MHD_run(a->daemon); /* what was answered last goes out as far as it goes without waiting */
        for (struct api_call *call = a->calls; call; call = call->next)
                if (call->state == CALL_WAITING) { /* a suspended connection would hold the daemon's end */
                        a->handlers->abandoned(call, a->userdata);
                        call->state = CALL_NEW;
                        MHD_resume_connection(call->connection);
                }
        a->io = sd_event_source_disable_unref(a->io);
        a->timer = sd_event_source_disable_unref(a->timer);
        a->turn = sd_event_source_disable_unref(a->turn);
        if (a->daemon)
                MHD_stop_daemon(a->daemon);
        a->local = api_local_free(a->local);
        free(a);
        return NULL;
}
