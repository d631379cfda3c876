/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>

#include "grpc_state.h"

/* --- The beginning of a call ------------------------------------------------------------------------ */

/* See sender.c of the uplink: without it curl before 8.0 cannot read why a server hung up. */
static CURLcode on_context(CURL *c, void *context, void *userdata) {
        (void) c, (void) userdata;
        (void) SSL_CTX_set_mode(context,
                                SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        return CURLE_OK;
}

/* A silent stream would not notice that its server's machine is gone. */
static int on_socket(void *userdata, curl_socket_t fd, curlsocktype purpose) {
        const unsigned ms = LOST_AFTER / USEC_PER_MSEC;

        (void) userdata, (void) purpose;
        (void) setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms)); /* a Unix socket has none */
        return CURL_SOCKOPT_OK;
}

static size_t on_header(char *data, size_t size, size_t n, void *userdata) {
        struct grpc_call *c = userdata;

        grpc_head_take(&c->head, data, size * n);
        return size * n;
}

/* Options that never change. */
static int setup_easy(struct grpc_call *c) {
        const struct grpc *g = c->channel;
        CURL *e = c->transfer.easy;
        int bad = 0;

        bad |= curl_easy_setopt(e, CURLOPT_POST, 1L) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_HTTP_VERSION,
                                (long) (g->https ? CURL_HTTP_VERSION_2TLS
                                                 : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE)) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_PIPEWAIT, g->https ? 1L : 0L) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_FORBID_REUSE, g->https ? 0L : 1L) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->headers) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, grpc_on_body) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_WRITEDATA, c) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_HEADERDATA, c) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, 10L) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, 5L) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_SOCKOPTFUNCTION, on_socket) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_context) != CURLE_OK;
        /* a resumed session would go on with the certificate of before */
        bad |= curl_easy_setopt(e, CURLOPT_SSL_SESSIONID_CACHE, 0L) != CURLE_OK;
        if (g->tls.path[TLS_CA][0])
                bad |= curl_easy_setopt(e, CURLOPT_CAINFO, g->tls.path[TLS_CA]) != CURLE_OK;
        if (g->tls.path[TLS_CERT][0]) {
                bad |= curl_easy_setopt(e, CURLOPT_SSLCERT, g->tls.path[TLS_CERT]) != CURLE_OK;
                bad |= curl_easy_setopt(e, CURLOPT_SSLKEY, g->tls.path[TLS_KEY]) != CURLE_OK;
        }
#if LIBCURL_VERSION_NUM >= 0x075700
        bad |= curl_easy_setopt(e, CURLOPT_CA_CACHE_TIMEOUT, 0L) !=
               CURLE_OK; /* as in sender.c of the uplink */
#endif
        return bad ? -EIO : 0;
}

static int setup_call(struct grpc_call *c) {
        const struct grpc *g = c->channel;
        CURL *e = c->transfer.easy;
        /* the deadline is of what is asked; a server that all connect to at once is given the time for that,
         * too */
        usec_t limit = c->deadline ? c->deadline + DEADLINE_GRACE + (g->works ? 0 : g->connect_timeout) : 0;
        usec_t taken;
        int bad = 0;

        if (g->lookup) {
                (void) snprintf(c->addresses_text, sizeof(c->addresses_text), "%s",
                                lookup_answer(g->lookup, &taken));
                c->addresses.data = c->addresses_text;
                bad |= curl_easy_setopt(e, CURLOPT_RESOLVE, &c->addresses) != CURLE_OK;
        }
        bad |= curl_easy_setopt(e, CURLOPT_URL, c->url) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, !g->https || g->fresh ? 1L : 0L) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_POSTFIELDS, c->out) != CURLE_OK;
        bad |= curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) c->out_len) != CURLE_OK;
        bad |= http_transfer_set_timeout(&c->transfer, limit) < 0;
        return bad ? -ENOMEM : 0;
}

static int start(struct grpc_call *c) {
        struct grpc *g = c->channel;
        const struct http_options o = { .user_agent = g->user_agent, .connect_timeout = g->connect_timeout };
        int r;

        r = http_transfer_prepare(&c->transfer, &o);
        if (r > 0)
                r = setup_easy(c);
        if (r >= 0)
                r = setup_call(c);
        if (r < 0) {
                http_transfer_drop(&c->transfer);
                return r;
        }
        r = http_transfer_start(&c->transfer);
        if (r < 0)
                return r;
        c->state = CALL_AT_WORK;
        g->fresh = false;
        return 0;
}

static int put_headers(struct grpc_call *c, const struct grpc_question *q) {
        static const char *const fixed[] = { [HEADER_TYPE] = "Content-Type: application/grpc",
                                             [HEADER_TE] = "TE: trailers",
                                             [HEADER_ACCEPT] = "grpc-accept-encoding: identity",
                                             [HEADER_EXPECT] = "Expect:" };
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(fixed); i++)
                (void) snprintf(c->header_text[n++], GRPC_METADATA_LINE_MAX, "%s", fixed[i]);
        if (q->deadline) /* at most eight digits (PROTOCOL-HTTP2.md, Timeout) */
                (void) snprintf(c->header_text[n++], GRPC_METADATA_LINE_MAX, "grpc-timeout: %" PRIu64 "m",
                                MIN(q->deadline / USEC_PER_MSEC, (usec_t) 99999999));
        for (size_t i = 0; i < GRPC_METADATA_MAX && q->metadata[i]; i++) {
                if (strlen(q->metadata[i]) >= GRPC_METADATA_LINE_MAX || strpbrk(q->metadata[i], "\r\n"))
                        return -EINVAL;
                (void) snprintf(c->header_text[n++], GRPC_METADATA_LINE_MAX, "%s", q->metadata[i]);
        }
        for (size_t i = 0; i < n; i++) {
                c->headers[i].data = c->header_text[i];
                c->headers[i].next = i + 1 < n ? &c->headers[i + 1] : NULL;
        }
        return 0;
}

/* A free place, or a new one. */
static struct grpc_call *place(struct grpc *g) {
        struct grpc_call *c;

        for (c = g->calls; c; c = c->next)
                if (c->state == CALL_FREE && !c->transfer.at_work)
                        return c;
        c = g->n_calls < GRPC_CALLS_MAX ? calloc(1, sizeof(*c)) : NULL;
        if (!c)
                return NULL;
        c->channel = g;
        c->transfer.done = grpc_on_done;
        http_loop_add(g->loop, &c->transfer);
        c->next = g->calls;
        g->calls = c;
        g->n_calls++;
        return c;
}

static int fill(struct grpc_call *c, const struct grpc_question *q) {
        size_t head = q->framed ? 0 : GRPC_FRAME_HEAD;
        int n, r;

        n = snprintf(c->url, sizeof(c->url), "%s%s", c->channel->url, q->method);
        if (n < 0 || (size_t) n >= sizeof(c->url) || q->len > GRPC_MESSAGE_MAX)
                return -EINVAL;
        r = put_headers(c, q);
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
        c->head = (struct grpc_head){ 0 };
        c->deadline = q->deadline;
        c->message = q->message;
        c->done = q->done;
        c->userdata = q->userdata;
        return 0;
}

int grpc_ask(struct grpc *g, const struct grpc_question *q, struct grpc_call **ret) {
        struct grpc_call *c = place(g);
        usec_t taken;
        int r;

        if (!c)
                return g->n_calls < GRPC_CALLS_MAX ? -ENOMEM : -EBUSY;
        if (tls_files_look(&g->tls))
                g->fresh = true;
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

struct grpc_call *grpc_cancel(struct grpc_call *c) {
        if (!c)
                return NULL;
        if (c->transfer.at_work) {
                http_transfer_drop(&c->transfer);
                c->transfer.at_work = false;
        }
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

static int lookup_for(struct grpc *g, CURLU *u) {
        struct lookup_options o = { .done = on_resolved, .userdata = g };
        char *host = NULL, *port = NULL;
        struct in_addr four;
        int r = 0;

        if (curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK)
                return -EINVAL;
        if (curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK)
                r = -EINVAL;
        if (r == 0 && host[0] != '[' && inet_pton(AF_INET, host, &four) != 1) {
                o.host = host;
                o.port = (uint16_t) strtoul(port, NULL, 10); /* libcurl has bounded it */
                r = lookup_new(g->event, &o, &g->lookup);
        }
        curl_free(host);
        curl_free(port);
        return r;
}

/* --- Life ------------------------------------------------------------------------------------------- */

static int take_url(struct grpc *g, const char *url) {
        size_t len = strlen(url);
        CURLU *u;
        int r;

        if ((!startswith(url, "http://") && !startswith(url, "https://")) || strchr(url, '@') ||
            len > GRPC_URL_MAX / 2)
                return -EINVAL;
        while (url[len - 1] == '/')
                len--;
        g->https = startswith(url, "https://");
        g->url = strndup(url, len);
        u = curl_url();
        if (!u || !g->url)
                r = -ENOMEM;
        else
                r = curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK ? lookup_for(g, u) : -EINVAL;
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

int grpc_new(sd_event *e, const struct grpc_options *o, struct grpc **ret) {
        _cleanup_(grpc_freep) struct grpc *g = calloc(1, sizeof(*g));
        int r;

        if (!g)
                return -ENOMEM;
        g->event = sd_event_ref(e);
        g->connect_timeout = o->connect_timeout;
        g->message_max = MIN(o->message_max, (size_t) GRPC_MESSAGE_MAX);
        g->user_agent = strdup(o->user_agent);
        if (!g->user_agent)
                return -ENOMEM;
        r = http_loop_new(e, o->name, &g->loop);
        if (r == 0)
                r = take_url(g, o->url);
        if (r == 0)
                r = take_paths(&g->tls, o);
        if (r == 0)
                r = sd_event_add_defer(e, &g->deliver, grpc_on_deliver, g);
        if (r >= 0)
                r = sd_event_source_set_enabled(g->deliver, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(g->deliver, "grpc-messages");
        *ret = TAKE_PTR(g);
        return 0;
}

struct grpc *grpc_free(struct grpc *g) {
        struct grpc_call *c;

        if (!g)
                return NULL;
        g->lookup = lookup_free(g->lookup);
        g->deliver = sd_event_source_disable_unref(g->deliver);
        g->loop = http_loop_free(g->loop);
        while ((c = g->calls)) {
                g->calls = c->next;
                free(c->in);
                free(c->out);
                free(c);
        }
        g->event = sd_event_unref(g->event);
        free(g->url);
        free(g->user_agent);
        free(g);
        return NULL;
}
