/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <strings.h>

#include "http_loop.h"
#include "sender.h"

enum { HEADER_TYPE, HEADER_EXPECT, HEADER_RECORD, _HEADER_MAX };

struct request {
        struct http_transfer transfer; /* the first member: done is given it */
        struct sender *sender;
        char retry_after[64];
        uint8_t *body;
        size_t len, received;
        /* libcurl only reads header lists, so that ours can live here and a request allocates none */
        struct curl_slist headers[_HEADER_MAX];
        char header_text[_HEADER_MAX][128];
};

struct sender {
        struct http_loop *loop;
        struct sender_options options;
        char *user_agent;
        struct request requests[SENDER_SLOTS_MAX];
};

static size_t on_body(char *data, size_t size, size_t n, void *userdata) {
        struct request *q = userdata;
        size_t len = size * n, room = SENDER_BODY_MAX - q->len;

        q->received += len;
        if (q->received > SENDER_ANSWER_MAX)
                return 0; /* ends the transfer */
        memcpy(q->body + q->len, data, MIN(len, room));
        q->len += MIN(len, room);
        return len;
}

static size_t on_header(char *data, size_t size, size_t n, void *userdata) {
        static const char name[] = "retry-after:";
        struct request *q = userdata;
        size_t len = size * n, at = sizeof(name) - 1;

        if (len < at || strncasecmp(data, name, at) != 0)
                return len;
        while (at < len && (data[at] == ' ' || data[at] == '\t'))
                at++;
        while (len > at && (data[len - 1] == '\r' || data[len - 1] == '\n' || data[len - 1] == ' '))
                len--;
        if (len - at < sizeof(q->retry_after)) {
                memcpy(q->retry_after, data + at, len - at);
                q->retry_after[len - at] = '\0';
        }
        return size * n;
}

static void on_done(struct http_transfer *t, const char *error) {
        struct request *q = (struct request *) t;
        struct sender *s = q->sender;
        size_t slot = (size_t) (q - s->requests);
        struct sender_answer a = { .failed = error };
        char *type = NULL;

        if (error)
                (void) snprintf(a.text, sizeof(a.text), "%s", error);
        else {
                a.body = q->body;
                a.len = q->len;
                (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &a.status);
                (void) curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
                a.content_type = type;
                memcpy(a.retry_after, q->retry_after, sizeof(a.retry_after));
        }
        s->options.done(slot, &a, s->options.userdata);
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
        return bad ? -EIO : 0;
}

static int prepare(struct sender *s, struct request *q) {
        const struct http_options o = { .user_agent = s->user_agent,
                                        .connect_timeout = s->options.connect_timeout,
                                        .timeout = s->options.timeout };
        int r;

        if (!q->body)
                q->body = malloc(SENDER_BODY_MAX);
        if (!q->body)
                return -ENOMEM;
        r = http_transfer_prepare(&q->transfer, &o);
        if (r <= 0)
                return r;
        for (size_t i = 0; i < _HEADER_MAX; i++) {
                q->headers[i].data = q->header_text[i];
                q->headers[i].next = i + 1 < _HEADER_MAX ? &q->headers[i + 1] : NULL;
        }
        (void) snprintf(q->header_text[HEADER_TYPE], sizeof(q->header_text[0]),
                        "Content-Type: application/x-protobuf");
        (void) snprintf(q->header_text[HEADER_EXPECT], sizeof(q->header_text[0]),
                        "Expect:"); /* else 1 s lost on large bodies */
        r = setup_easy(q);
        if (r < 0)
                http_transfer_drop(&q->transfer);
        return r;
}

int sender_post(struct sender *s, size_t slot, const char *url, const char *header, const void *data,
                size_t len) {
        struct request *q = &s->requests[slot];
        int r;

        assert(slot < SENDER_SLOTS_MAX);
        if (q->transfer.at_work)
                return -EBUSY;
        r = prepare(s, q);
        if (r < 0)
                return r;
        (void) snprintf(q->header_text[HEADER_RECORD], sizeof(q->header_text[0]), "%s", header);
        q->len = q->received = 0;
        q->retry_after[0] = '\0';
        if (curl_easy_setopt(q->transfer.easy, CURLOPT_URL, url) != CURLE_OK)
                return -EINVAL;
        if (curl_easy_setopt(q->transfer.easy, CURLOPT_POSTFIELDS, data) != CURLE_OK ||
            curl_easy_setopt(q->transfer.easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) len) != CURLE_OK)
                return -ENOMEM;
        return http_transfer_start(&q->transfer);
}

int sender_new(sd_event *e, const struct sender_options *o, struct sender **ret) {
        _cleanup_(sender_freep) struct sender *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return -ENOMEM;
        s->options = *o;
        s->user_agent = strdup(o->user_agent);
        if (!s->user_agent)
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
        free(s);
        return NULL;
}
