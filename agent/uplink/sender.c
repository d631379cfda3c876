/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "retry_after.h"
#include "http_loop.h"
#include "lookup.h"
#include "sender.h"

/* The last one is not in every request. */
enum { HEADER_TYPE, HEADER_EXPECT, HEADER_RECORD, HEADER_GZIP, _HEADER_MAX };

#define CONNECTION_SECONDS \
        1800 /* after that a new one: names and certificates of the other side may have moved */

struct request {
        struct http_transfer transfer; /* the first member: done is given it */
        struct sender *sender;
        char retry_after[BACKOFF_RETRY_AFTER_TEXT];
        uint8_t *body;
        size_t len, received;
        /* libcurl only reads header lists, so that ours can live here and a request allocates none */
        struct curl_slist headers[_HEADER_MAX];
        char header_text[_HEADER_MAX][128];
        struct curl_slist addresses;
        char addresses_text[LOOKUP_TEXT_MAX];
};

struct sender {
        struct http_loop *loop;
        struct sender_options options;
        char *user_agent, *proxy;
        struct request requests[SENDER_SLOTS_MAX];
};

static size_t on_body(char *data, size_t size, size_t n, void *userdata) {
        struct request *q = userdata;
        size_t len = size * n, room = SENDER_BODY_MAX - q->len;

        q->received += len;
        if (!q->body)
                q->body = malloc(SENDER_BODY_MAX);
        if (!q->body || q->received > SENDER_ANSWER_MAX)
                return 0; /* ends the transfer */
        memcpy(q->body + q->len, data, MIN(len, room));
        q->len += MIN(len, room);
        return len;
}

static size_t on_header(char *data, size_t size, size_t n, void *userdata) {
        struct request *q = userdata;

        backoff_take_retry_after(data, size * n, q->retry_after);
        return size * n;
}

static void on_done(struct http_transfer *t, const char *error) {
        struct request *q = (struct request *) t;
        struct sender *s = q->sender;
        size_t slot = (size_t) (q - s->requests);
        struct sender_answer a = { .failed = error };
        char *type = NULL;

        if (error) {
                a.certificate = http_transfer_about_certificates(t);
                (void) snprintf(a.text, sizeof(a.text), "%s", t->why[0] ? t->why : error);
                a.cut_off = t->code == CURLE_SEND_ERROR;
                a.unsent = t->code == CURLE_COULDNT_CONNECT || t->code == CURLE_COULDNT_RESOLVE_HOST ||
                           t->code == CURLE_COULDNT_RESOLVE_PROXY;
        } else {
                a.body = q->body ? q->body : (const uint8_t *) "";
                a.len = q->len;
                (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &a.status);
                (void) curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
                a.content_type = type;
                memcpy(a.retry_after, q->retry_after, sizeof(a.retry_after));
        }
        s->options.done(slot, &a, s->options.userdata);
        free(TAKE_PTR(q->body)); /* also when done has begun the next exchange: nothing of it has come yet */
}

/* Options that never change. They are of kinds that libcurl takes over by value or copies. */
static int setup_easy(struct request *q) {
        CURL *c = q->transfer.easy;
        int bad = 0;

        bad |= curl_easy_setopt(c, CURLOPT_POST, 1L) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HTTPHEADER, q->headers) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEDATA, q) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERDATA, q) != CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075000
        bad |= curl_easy_setopt(c, CURLOPT_MAXLIFETIME_CONN, (long) CONNECTION_SECONDS) != CURLE_OK;
#endif
        return bad ? -EIO : 0;
}

static int prepare(struct sender *s, struct request *q) {
        const struct http_options o = { .user_agent = s->user_agent,
                                        .proxy = s->proxy,
                                        .connect_timeout = s->options.connect_timeout,
                                        .timeout = s->options.timeout };
        int r;

        r = http_transfer_prepare(&q->transfer, &o);
        if (r <= 0)
                return r;
        for (size_t i = 0; i < _HEADER_MAX; i++)
                q->headers[i].data = q->header_text[i];
        for (size_t i = 0; i < HEADER_RECORD; i++)
                q->headers[i].next = &q->headers[i + 1];
        (void) snprintf(q->header_text[HEADER_GZIP], sizeof(q->header_text[0]), "Content-Encoding: gzip");
        (void) snprintf(q->header_text[HEADER_TYPE], sizeof(q->header_text[0]),
                        "Content-Type: application/x-protobuf");
        r = setup_easy(q);
        if (r < 0)
                http_transfer_drop(&q->transfer);
        return r;
}

/* NULL and not "": libcurl would look for a file without a name. */
static const char *path_or_null(const struct tls_files *f, enum tls_file which) {
        return f && f->path[which][0] ? f->path[which] : NULL;
}

static int setup_request(struct request *q, const struct sender_request *r) {
        CURL *c = q->transfer.easy;
        int bad = 0;

        (void) snprintf(q->header_text[HEADER_RECORD], sizeof(q->header_text[0]), "%s", r->header);
        /* By itself libcurl asks for large bodies, and waits 1 s for those who do not answer that. */
        (void) snprintf(q->header_text[HEADER_EXPECT], sizeof(q->header_text[0]), "%s",
                        r->careful ? "Expect: 100-continue" : "Expect:");
        q->headers[HEADER_RECORD].next = r->gzip ? &q->headers[HEADER_GZIP] : NULL;
        (void) snprintf(q->addresses_text, sizeof(q->addresses_text), "%s",
                        r->addresses ? r->addresses : "");
        q->addresses.data = q->addresses_text;
        if (curl_easy_setopt(c, CURLOPT_URL, r->url) != CURLE_OK)
                return -EINVAL;
        bad |= curl_easy_setopt(c, CURLOPT_RESOLVE, r->addresses ? &q->addresses : NULL) != CURLE_OK;
        if (path_or_null(r->tls, TLS_CA)) /* else the system's authorities */
                bad |= curl_easy_setopt(c, CURLOPT_CAINFO, r->tls->path[TLS_CA]) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_SSLCERT, path_or_null(r->tls, TLS_CERT)) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_SSLKEY, path_or_null(r->tls, TLS_KEY)) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_POSTFIELDS, r->data) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) r->len) != CURLE_OK;
        return bad ? -ENOMEM : 0;
}

int sender_post(struct sender *s, size_t slot, const struct sender_request *request) {
        struct request *q = &s->requests[slot];
        int r;

        assert(slot < SENDER_SLOTS_MAX);
        if (q->transfer.at_work)
                return -EBUSY;
        r = prepare(s, q);
        if (r >= 0)
                r = setup_request(q, request);
        if (r < 0)
                return r;
        q->len = q->received = 0;
        q->retry_after[0] = '\0';
        return http_transfer_start(&q->transfer);
}

void sender_renew(struct sender *s) {
        http_loop_renew(s->loop);
}

int sender_new(sd_event *e, const struct sender_options *o, struct sender **ret) {
        _cleanup_(sender_freep) struct sender *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return -ENOMEM;
        s->options = *o;
        s->user_agent = strdup(o->user_agent);
        s->proxy = o->proxy ? strdup(o->proxy) : NULL;
        if (!s->user_agent || (o->proxy && !s->proxy))
                return -ENOMEM;
        r = http_loop_new(e, "uplink", &s->loop);
        if (r < 0)
                return r;
        for (size_t i = 0; i < SENDER_SLOTS_MAX; i++) {
                s->requests[i].sender = s;
                s->requests[i].transfer.done = on_done;
                http_loop_add(s->loop, &s->requests[i].transfer);
        }
        *ret = TAKE_PTR(s);
        return 0;
}

struct sender *sender_free(struct sender *s) {
        if (!s)
                return NULL;
        s->loop = http_loop_free(s->loop);
        for (size_t i = 0; i < SENDER_SLOTS_MAX; i++)
                free(s->requests[i].body);
        free(s->user_agent);
        free(s->proxy);
        free(s);
        return NULL;
}
