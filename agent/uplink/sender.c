/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "http_loop.h"
#include "lookup.h"
#include "sender.h"

/* The last one is not in every request. */
enum { HEADER_TYPE, HEADER_EXPECT, HEADER_RECORD, HEADER_GZIP, _HEADER_MAX };

struct request {
        struct http_transfer transfer; /* the first member: done is given it */
        struct sender *sender;
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
                a.body = t->answer ? t->answer : "";
                a.len = t->len;
                (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &a.status);
                (void) curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
                a.content_type = type;
                memcpy(a.retry_after, t->retry_after, sizeof(a.retry_after));
        }
        s->options.done(slot, &a, s->options.userdata);
}

static int prepare(struct sender *s, struct request *q) {
        const struct http_options o = { .user_agent = s->user_agent,
                                        .proxy = s->proxy,
                                        .connect_timeout = s->options.connect_timeout,
                                        .timeout = s->options.timeout,
                                        .answer_max = SENDER_ANSWER_MAX,
                                        .answer_kept = SENDER_BODY_MAX,
                                        .posts = true };
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
        if (curl_easy_setopt(q->transfer.easy, CURLOPT_HTTPHEADER, q->headers) == CURLE_OK)
                return 0;
        http_transfer_drop(&q->transfer);
        return -EIO;
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
        bad |= r->tls && http_transfer_set_tls(&q->transfer, r->tls->path[TLS_CA], r->tls->path[TLS_CERT],
                                               r->tls->path[TLS_KEY]) < 0;
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
        free(s->user_agent);
        free(s->proxy);
        free(s);
        return NULL;
}
