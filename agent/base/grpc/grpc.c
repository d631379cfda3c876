/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <curl/urlapi.h>

#include "grpc_state.h"

usec_t grpc_now(const struct grpc *g) {
        usec_t now = 0;

        (void) sd_event_now(g->event, CLOCK_BOOTTIME, &now); /* fails for a clock that is not there only */
        return now;
}

void grpc_unsettled(struct grpc *g) {
        (void) sd_event_source_set_enabled(g->settle, SD_EVENT_ONESHOT); /* fails for a source without a loop only */
}

/* --- Time ------------------------------------------------------------------------------------------- */

static usec_t next_due(const struct grpc *g) {
        usec_t due = USEC_INFINITY;

        for (const struct grpc_call *c = g->calls; c; c = c->next)
                if (c->state == CALL_AT_WORK)
                        due = MIN(due, c->due);
        for (const struct grpc_connection *n = g->connections; n; n = n->next)
                if (n->phase != PHASE_OPEN && !n->failed)
                        due = MIN(due, MIN(n->due, n->address_due));
        return due;
}

/* A timer that goes off too early is set anew then; so it is not moved for each call that was answered. */
static void arm(struct grpc *g) {
        usec_t due = next_due(g), now = grpc_now(g);

        if (due >= g->timer_due)
                return;
        g->timer_due = due;
        /* Both fail for a source without a loop only. */
        (void) sd_event_source_set_time_relative(g->timer, due > now ? due - now : 0);
        (void) sd_event_source_set_enabled(g->timer, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct grpc *g = userdata;
        usec_t now = grpc_now(g);

        (void) source, (void) usec;
        g->timer_due = USEC_INFINITY;
        for (struct grpc_connection *n = g->connections; n; n = n->next)
                grpc_connection_late(n, now);
        for (struct grpc_call *c = g->calls; c; c = c->next)
                if (c->state == CALL_AT_WORK && c->due <= now)
                        grpc_call_late(c);
        grpc_settle(g);
        return 0;
}

/* --- From the loop ---------------------------------------------------------------------------------- */

static bool is_idle(const struct grpc_connection *n) {
        for (const struct grpc_call *c = n->channel->calls; c; c = c->next)
                if (c->state == CALL_AT_WORK && c->connection == n)
                        return false;
        return true;
}

static void sweep(struct grpc *g) {
        struct grpc_connection **at = &g->connections, *n;

        while ((n = *at))
                if (n->retired && is_idle(n)) {
                        *at = n->next;
                        (void) grpc_connection_free(n);
                } else
                        at = &n->next;
}

void grpc_settle(struct grpc *g) {
        for (struct grpc_call *c = g->calls; c; c = c->next)
                grpc_call_settle(c);
        for (struct grpc_connection *n = g->connections; n; n = n->next)
                if (!n->failed)
                        grpc_connection_flush(n);
        sweep(g);
        arm(g);
}

static int on_settle(sd_event_source *source, void *userdata) {
        (void) source;
        grpc_settle(userdata);
        return 0;
}

/* --- The beginning of a call ------------------------------------------------------------------------ */

static int start(struct grpc_call *c) {
        struct grpc *g = c->channel;
        int r = g->current ? grpc_streams_ask(g->current, c) : -EAGAIN;

        if (r == -EAGAIN) {
                if (g->current)
                        grpc_connection_retire(g->current);
                r = grpc_dial(g);
                /* what has failed at once is told to the call from the loop */
                if (r == 0)
                        r = grpc_streams_ask(g->connections, c);
        }
        if (r < 0)
                return r;
        c->connection = g->current ? g->current : g->connections;
        c->state = CALL_AT_WORK;
        c->due = c->deadline ? grpc_now(g) + c->deadline + DEADLINE_GRACE : USEC_INFINITY;
        /* the deadline is of what is asked; a server that all connect to at once is given the time for that, too */
        if (c->deadline && c->connection->phase != PHASE_OPEN)
                c->due += grpc_connect_span(g);
        grpc_unsettled(g);
        return 0;
}

/* A free place, or a new one. */
static struct grpc_call *place(struct grpc *g) {
        struct grpc_call *c;

        for (c = g->calls; c; c = c->next)
                if (c->state == CALL_FREE)
                        return c;
        c = g->n_calls < GRPC_CALLS_MAX ? calloc(1, sizeof(*c)) : NULL;
        if (!c)
                return NULL;
        c->channel = g;
        c->next = g->calls;
        g->calls = c;
        g->n_calls++;
        return c;
}

/* Names of HTTP/2 are small letters. */
static int put_metadata(struct grpc_call *c, const struct grpc_question *q) {
        c->timeout[0] = '\0';
        if (q->deadline) /* at most eight digits (PROTOCOL-HTTP2.md, Timeout) */
                (void) snprintf(c->timeout, sizeof(c->timeout), "%" PRIu64 "m",
                                MIN(q->deadline / USEC_PER_MSEC, (usec_t) 99999999));
        for (size_t i = 0; i < GRPC_METADATA_MAX; i++) {
                const char *line = q->metadata[i];

                c->metadata[i][0] = '\0';
                if (!line)
                        return 0;
                if (strlen(line) >= GRPC_METADATA_LINE_MAX || strpbrk(line, "\r\n") || line[0] == ':' ||
                    !strchr(line, ':'))
                        return -EINVAL;
                (void) snprintf(c->metadata[i], GRPC_METADATA_LINE_MAX, "%s", line);
                for (char *at = c->metadata[i]; *at != ':'; at++)
                        if (*at >= 'A' && *at <= 'Z')
                                *at = (char) (*at | 0x20);
        }
        return 0;
}

static int fill(struct grpc_call *c, const struct grpc_question *q) {
        size_t head = q->framed ? 0 : GRPC_FRAME_HEAD;
        int n, r;

        n = snprintf(c->path, sizeof(c->path), "%s%s", c->channel->path, q->method);
        if (n < 0 || (size_t) n >= sizeof(c->path) || q->len > GRPC_MESSAGE_MAX)
                return -EINVAL;
        r = put_metadata(c, q);
        if (r < 0)
                return r;
        c->out = malloc(head + q->len);
        if (!c->out)
                return -ENOMEM;
        if (!q->framed)
                grpc_frame_head(c->out, (uint32_t) q->len);
        if (q->len > 0)
                memcpy(c->out + head, q->data, q->len);
        c->out_len = head + q->len;
        c->open = q->framed && q->open;
        c->head = (struct grpc_head){ 0 };
        c->deadline = q->deadline;
        c->message = q->message;
        c->done = q->done;
        c->userdata = q->userdata;
        return 0;
}

/* Other files: other connections from now on. */
static void renew(struct grpc *g) {
        EVP_PKEY *key;

        if (!tls_files_look_key(&g->tls, &key))
                return;
        EVP_PKEY_free(g->key);
        SSL_CTX_free(g->context);
        g->key = key;
        g->context = NULL;
        if (g->current)
                grpc_connection_retire(g->current);
}

void grpc_prepare(struct grpc *g) {
        renew(g);
        if (g->https && !g->tls.error[0])
                grpc_tls_prepare(g);
}

int grpc_ask(struct grpc *g, const struct grpc_question *q, struct grpc_call **ret) {
        struct grpc_call *c = place(g);
        usec_t taken;
        int r;

        if (!c)
                return g->n_calls < GRPC_CALLS_MAX ? -ENOMEM : -EBUSY;
        renew(g);
        if (g->https && g->tls.error[0])
                return -EBADMSG;
        r = fill(c, q);
        if (r == 0 && g->lookup && !lookup_answer(g->lookup, &taken)) {
                r = lookup_ask(g->lookup);
                c->state = CALL_WAITING;
        } else if (r == 0)
                r = start(c);
        if (r < 0) {
                grpc_clear(c);
                return r;
        }
        *ret = c;
        return 0;
}

int grpc_more(struct grpc_call *c, const void *frames, size_t len) {
        uint8_t *more;

        if (!c->open || len > GRPC_MESSAGE_MAX - c->out_len)
                return -EINVAL;
        more = realloc(c->out, c->out_len + len);
        if (!more)
                return -ENOMEM;
        memcpy(more + c->out_len, frames, len);
        c->out = more;
        c->out_len += len;
        c->open = false;
        if (c->state == CALL_AT_WORK)
                grpc_streams_resume(c);
        return 0;
}

struct grpc_call *grpc_cancel(struct grpc_call *c) {
        if (!c)
                return NULL;
        if (c->state == CALL_AT_WORK)
                grpc_streams_forget(c);
        grpc_clear(c);
        return NULL;
}

const char *grpc_trouble(const struct grpc *g) {
        return g->tls.error;
}

/* --- The name --------------------------------------------------------------------------------------- */

static void on_resolved(const char *error, void *userdata) {
        struct grpc *g = userdata;
        usec_t taken;
        bool known = lookup_answer(g->lookup, &taken);

        /* in two rounds: done may ask again, which is another call then */
        for (struct grpc_call *c = g->calls; c; c = c->next)
                if (c->state == CALL_WAITING && (!known || start(c) < 0))
                        c->state = CALL_LOST;
        for (struct grpc_call *c = g->calls; c; c = c->next)
                if (c->state == CALL_LOST)
                        grpc_fail(c, GRPC_UNSENT, GRPC_UNAVAILABLE,
                                  known || !error ? "the call could not be started" : error);
}

/* --- Life ------------------------------------------------------------------------------------------- */

static int part(CURLU *u, CURLUPart which, unsigned flags, char **ret) {
        char *text = NULL;

        if (curl_url_get(u, which, &text, flags) != CURLUE_OK)
                return -EINVAL;
        *ret = strdup(text);
        curl_free(text);
        return *ret ? 0 : -ENOMEM;
}

static int lookup_for(struct grpc *g) {
        const struct lookup_options o = {
                .host = g->host, .port = g->port, .done = on_resolved, .userdata = g
        };
        struct in6_addr any;

        if (inet_pton(AF_INET, g->host, &any) == 1 || inet_pton(AF_INET6, g->host, &any) == 1)
                return 0;
        return lookup_new(g->event, &o, &g->lookup);
}

/* Host, port, authority and path out of the URL. */
static int take_parts(struct grpc *g, CURLU *u) {
        _cleanup_free_ char *port = NULL;
        size_t len;
        int r;

        r = part(u, CURLUPART_HOST, 0, &g->host);
        if (r == 0)
                r = part(u, CURLUPART_PORT, CURLU_DEFAULT_PORT, &port);
        if (r == 0)
                r = part(u, CURLUPART_PATH, 0, &g->path);
        if (r == 0 && asprintf(&g->authority, "%s:%s", g->host, port) < 0) {
                g->authority = NULL;
                r = -ENOMEM;
        }
        if (r < 0)
                return r;
        g->port = (uint16_t) strtoul(port, NULL, 10); /* libcurl has bounded it */
        for (len = strlen(g->path); len > 0 && g->path[len - 1] == '/'; len--)
                g->path[len - 1] = '\0';
        len = strlen(g->host);
        if (g->host[0] == '[') { /* an address, without a zone */
                memmove(g->host, g->host + 1, len);
                g->host[len - 2] = '\0';
        }
        return lookup_for(g);
}

static int take_url(struct grpc *g, const char *url) {
        CURLU *u;
        int r;

        if ((!startswith(url, "http://") && !startswith(url, "https://")) || strchr(url, '@') ||
            strlen(url) > GRPC_URL_MAX / 2)
                return -EINVAL;
        g->https = startswith(url, "https://");
        u = curl_url();
        if (!u)
                r = -ENOMEM;
        else
                r = curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK ? take_parts(g, u) : -EINVAL;
        curl_url_cleanup(u);
        return r;
}

static int take_paths(struct tls_files *f, const struct grpc_options *o) {
        const char *const paths[_TLS_FILE_MAX] = {
                [TLS_CA] = o->ca, [TLS_CERT] = o->cert, [TLS_KEY] = o->key
        };

        for (size_t i = 0; i < _TLS_FILE_MAX; i++) {
                if (paths[i] && strlen(paths[i]) >= TLS_PATH_MAX)
                        return -ENAMETOOLONG;
                (void) snprintf(f->path[i], TLS_PATH_MAX, "%s", paths[i] ? paths[i] : "");
        }
        return 0;
}

static int add_sources(struct grpc *g) {
        int r = sd_event_add_defer(g->event, &g->settle, on_settle, g);

        if (r >= 0)
                r = sd_event_source_set_enabled(g->settle, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_add_time_relative(g->event, &g->timer, CLOCK_BOOTTIME, 0, 1 * USEC_PER_MSEC, on_timer,
                                               g);
        if (r >= 0)
                r = sd_event_source_set_enabled(g->timer, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(g->settle, "grpc-settle");
        (void) sd_event_source_set_description(g->timer, "grpc-deadlines");
        return 0;
}

int grpc_new(sd_event *e, const struct grpc_options *o, struct grpc **ret) {
        _cleanup_(grpc_freep) struct grpc *g = calloc(1, sizeof(*g));
        int r;

        if (!g)
                return -ENOMEM;
        g->event = sd_event_ref(e);
        g->connect_timeout = o->connect_timeout;
        g->timer_due = USEC_INFINITY;
        g->message_max = MIN(o->message_max, (size_t) GRPC_MESSAGE_MAX);
        g->user_agent = strdup(o->user_agent);
        g->name = strdup(o->name);
        if (!g->user_agent || !g->name)
                return -ENOMEM;
        r = take_url(g, o->url);
        if (r == 0)
                r = take_paths(&g->tls, o);
        if (r == 0)
                r = add_sources(g);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(g);
        return 0;
}

struct grpc *grpc_free(struct grpc *g) {
        struct grpc_connection *n;
        struct grpc_call *c;

        if (!g)
                return NULL;
        g->lookup = lookup_free(g->lookup);
        g->settle = sd_event_source_disable_unref(g->settle);
        g->timer = sd_event_source_disable_unref(g->timer);
        while ((n = g->connections)) {
                g->connections = n->next;
                (void) grpc_connection_free(n);
        }
        while ((c = g->calls)) {
                g->calls = c->next;
                free(c->in);
                free(c->out);
                free(c);
        }
        EVP_PKEY_free(g->key);
        SSL_CTX_free(g->context);
        g->event = sd_event_unref(g->event);
        free(g->name);
        free(g->host);
        free(g->authority);
        free(g->path);
        free(g->user_agent);
        free(g);
        return NULL;
}
