/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <curl/curl.h>
#include <strings.h>

#include "sender.h"

enum { HEADER_TYPE, HEADER_EXPECT, HEADER_RECORD, _HEADER_MAX };

struct request {
        CURL *easy;
        bool at_work;
        char *content_type;
        char retry_after[64];
        uint8_t *body;
        size_t len, received;
        /* libcurl only reads header lists, so that ours can live here and a request allocates none */
        struct curl_slist headers[_HEADER_MAX];
        char header_text[_HEADER_MAX][128];
};

struct sender {
        sd_event *event;
        CURLM *multi;
        bool global;
        sd_event_source *timer;
        struct sender_options options;
        char *user_agent;
        struct request requests[SENDER_SLOTS_MAX];
};

static void drain(struct sender *s);
static void rebuild(struct sender *s);

static void step(struct sender *s, curl_socket_t fd, int mask) {
        int running;

        if (curl_multi_socket_action(s->multi, fd, mask, &running) != CURLM_OK)
                rebuild(s);
        else
                drain(s);
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        int mask = 0;

        (void) source;
        if (revents & EPOLLIN)
                mask |= CURL_CSELECT_IN;
        if (revents & EPOLLOUT)
                mask |= CURL_CSELECT_OUT;
        if (revents & (EPOLLERR | EPOLLHUP))
                mask |= CURL_CSELECT_ERR;
        step(userdata, fd, mask);
        return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source;
        (void) usec;
        step(userdata, CURL_SOCKET_TIMEOUT, 0);
        return 0;
}

static int socket_changed(CURL *easy, curl_socket_t fd, int what, void *userdata, void *socketp) {
        sd_event_source *source = socketp;
        struct sender *s = userdata;
        uint32_t events = 0;

        (void) easy;
        if (what == CURL_POLL_REMOVE) {
                (void) sd_event_source_disable_unref(source);
                (void) curl_multi_assign(s->multi, fd, NULL);
                return 0;
        }
        if (what != CURL_POLL_OUT)
                events |= EPOLLIN;
        if (what != CURL_POLL_IN)
                events |= EPOLLOUT;
        if (source)
                return sd_event_source_set_io_events(source, events) < 0 ? -1 : 0;
        if (sd_event_add_io(s->event, &source, fd, events, on_io, s) < 0)
                return -1;
        (void) sd_event_source_set_description(source, "uplink-socket");
        if (curl_multi_assign(s->multi, fd, source) != CURLM_OK) {
                (void) sd_event_source_disable_unref(source);
                return -1;
        }
        return 0;
}

static int timer_changed(CURLM *multi, long timeout_ms, void *userdata) {
        struct sender *s = userdata;

        (void) multi;
        if (timeout_ms < 0)
                return sd_event_source_set_enabled(s->timer, SD_EVENT_OFF) < 0 ? -1 : 0;
        if (sd_event_source_set_time_relative(s->timer, (usec_t) timeout_ms * USEC_PER_MSEC) < 0)
                return -1;
        return sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT) < 0 ? -1 : 0;
}

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

static int new_multi(struct sender *s) {
        s->multi = curl_multi_init();
        if (!s->multi)
                return -ENOMEM;
        if (curl_multi_setopt(s->multi, CURLMOPT_SOCKETFUNCTION, socket_changed) != CURLM_OK ||
            curl_multi_setopt(s->multi, CURLMOPT_SOCKETDATA, s) != CURLM_OK ||
            curl_multi_setopt(s->multi, CURLMOPT_TIMERFUNCTION, timer_changed) != CURLM_OK ||
            curl_multi_setopt(s->multi, CURLMOPT_TIMERDATA, s) != CURLM_OK)
                return -EIO;
        return 0;
}

static void drop_handles(struct sender *s) {
        for (size_t i = 0; i < SENDER_SLOTS_MAX; i++) {
                struct request *q = &s->requests[i];

                if (q->easy && q->at_work)
                        (void) curl_multi_remove_handle(s->multi, q->easy);
                if (q->easy)
                        curl_easy_cleanup(q->easy);
                q->easy = NULL;
        }
        if (s->multi)
                (void) curl_multi_cleanup(s->multi);
        s->multi = NULL;
}

static void fail(struct sender *s, size_t slot, const char *text) {
        struct sender_answer a = { .failed = true };

        (void) snprintf(a.text, sizeof(a.text), "%s", text);
        s->options.done(slot, &a, s->options.userdata);
}

static void rebuild(struct sender *s) {
        bool lost[SENDER_SLOTS_MAX];

        drop_handles(s);
        (void) sd_event_source_set_enabled(s->timer, SD_EVENT_OFF);
        for (size_t i = 0; i < SENDER_SLOTS_MAX; i++) {
                lost[i] = s->requests[i].at_work;
                s->requests[i].at_work = false;
        }
        if (new_multi(s) < 0)
                drop_handles(s); /* the next post tries again */
        for (size_t i = 0; i < SENDER_SLOTS_MAX; i++)
                if (lost[i])
                        fail(s, i, "libcurl lost its state; started anew");
}

static void finish(struct sender *s, size_t slot, CURLcode code) {
        struct request *q = &s->requests[slot];
        struct sender_answer a = { .body = q->body, .len = q->len };
        char *type = NULL;

        (void) curl_multi_remove_handle(s->multi, q->easy);
        q->at_work = false;
        if (code != CURLE_OK) {
                fail(s, slot, curl_easy_strerror(code));
                return;
        }
        (void) curl_easy_getinfo(q->easy, CURLINFO_RESPONSE_CODE, &a.status);
        (void) curl_easy_getinfo(q->easy, CURLINFO_CONTENT_TYPE, &type);
        a.content_type = type;
        memcpy(a.retry_after, q->retry_after, sizeof(a.retry_after));
        s->options.done(slot, &a, s->options.userdata);
}

static void drain(struct sender *s) {
        CURLMsg *m;
        int left;

        while (s->multi && (m = curl_multi_info_read(s->multi, &left))) {
                CURLcode code = m->data.result;
                CURL *easy = m->easy_handle;

                if (m->msg != CURLMSG_DONE)
                        continue;
                for (size_t i = 0; i < SENDER_SLOTS_MAX; i++)
                        if (s->requests[i].easy == easy) {
                                finish(s, i, code);
                                break;
                        }
        }
}

/* Options that never change. They are of kinds that libcurl takes over by value or copies. */
static int setup_easy(struct sender *s, struct request *q) {
        CURL *c = q->easy;
        int bad = 0;

        bad |= curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_POST, 1L) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_PROXY, "") != CURLE_OK; /* not even from the environment */
        bad |= curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_USERAGENT, s->user_agent) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS,
                                (long) (s->options.connect_timeout / USEC_PER_MSEC)) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long) (s->options.timeout / USEC_PER_MSEC)) !=
               CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HTTPHEADER, q->headers) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEDATA, q) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERDATA, q) != CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075500
        bad |= curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK;
#else
        bad |= curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS)) != CURLE_OK;
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
        bad |= curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L) != CURLE_OK;
#endif
        return bad ? -EIO : 0;
}

static int prepare(struct sender *s, struct request *q) {
        int r;

        if (!s->multi) {
                r = new_multi(s);
                if (r < 0)
                        return r;
        }
        if (!q->body)
                q->body = malloc(SENDER_BODY_MAX);
        if (!q->body)
                return -ENOMEM;
        if (q->easy)
                return 0;
        q->easy = curl_easy_init();
        if (!q->easy)
                return -ENOMEM;
        for (size_t i = 0; i < _HEADER_MAX; i++) {
                q->headers[i].data = q->header_text[i];
                q->headers[i].next = i + 1 < _HEADER_MAX ? &q->headers[i + 1] : NULL;
        }
        (void) snprintf(q->header_text[HEADER_TYPE], sizeof(q->header_text[0]),
                        "Content-Type: application/x-protobuf");
        (void) snprintf(q->header_text[HEADER_EXPECT], sizeof(q->header_text[0]),
                        "Expect:"); /* else 1 s lost on large bodies */
        return setup_easy(s, q);
}

int sender_post(struct sender *s, size_t slot, const char *url, const char *header, const void *data,
                size_t len) {
        struct request *q = &s->requests[slot];
        int r;

        assert(slot < SENDER_SLOTS_MAX);
        if (q->at_work)
                return -EBUSY;
        r = prepare(s, q);
        if (r < 0)
                return r;
        (void) snprintf(q->header_text[HEADER_RECORD], sizeof(q->header_text[0]), "%s", header);
        q->len = q->received = 0;
        q->retry_after[0] = '\0';
        if (curl_easy_setopt(q->easy, CURLOPT_URL, url) != CURLE_OK)
                return -EINVAL;
        if (curl_easy_setopt(q->easy, CURLOPT_POSTFIELDS, data) != CURLE_OK ||
            curl_easy_setopt(q->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) len) != CURLE_OK)
                return -ENOMEM;
        if (curl_multi_add_handle(s->multi, q->easy) != CURLM_OK)
                return -EIO;
        q->at_work = true;
        return 0;
}

int sender_new(sd_event *e, const struct sender_options *o, struct sender **ret) {
        _cleanup_(sender_freep) struct sender *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return -ENOMEM;
        s->event = sd_event_ref(e);
        s->options = *o;
        s->user_agent = strdup(o->user_agent);
        if (!s->user_agent)
                return -ENOMEM;
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                return -EIO;
        s->global = true;
        r = sd_event_add_time_relative(e, &s->timer, CLOCK_MONOTONIC, 0, 1 * USEC_PER_MSEC, on_timer, s);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(s->timer, "uplink-curl");
        r = sd_event_source_set_enabled(s->timer, SD_EVENT_OFF);
        if (r < 0)
                return r;
        r = new_multi(s);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

struct sender *sender_free(struct sender *s) {
        if (!s)
                return NULL;
        drop_handles(s);
        s->timer = sd_event_source_disable_unref(s->timer);
        for (size_t i = 0; i < SENDER_SLOTS_MAX; i++)
                free(s->requests[i].body);
        free(s->user_agent);
        s->event = sd_event_unref(s->event);
        if (s->global)
                curl_global_cleanup();
        free(s);
        return NULL;
}
