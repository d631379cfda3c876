/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <netdb.h>
#include <sys/socket.h>

#include "child.h"
#include "io.h"
#include "lookup.h"

struct lookup {
        sd_event *event;
        char *host;
        uint16_t port;
        lookup_done done;
        void *userdata;
        struct child *child; /* a question at work, or its remains */
        bool asking;
        char text[LOOKUP_TEXT_MAX]; /* empty: nothing known */
        usec_t taken;
};

/* One address as CURLOPT_RESOLVE takes it. */
static size_t put_address(const struct addrinfo *a, char *buf, size_t size) {
        char text[INET6_ADDRSTRLEN];
        const void *address;
        int n;

        if (a->ai_family == AF_INET)
                address = &((const struct sockaddr_in *) (const void *) a->ai_addr)->sin_addr;
        else if (a->ai_family == AF_INET6)
                address = &((const struct sockaddr_in6 *) (const void *) a->ai_addr)->sin6_addr;
        else
                return 0;
        if (!inet_ntop(a->ai_family, address, text, sizeof(text)))
                return 0;
        n = snprintf(buf, size, a->ai_family == AF_INET ? "%s," : "[%s],", text);
        return n > 0 && (size_t) n < size ? (size_t) n : 0;
}

/* In the child. The answer: "+addresses", or "-why". */
static int look_up(int fd, const void *data) {
        const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
        struct addrinfo *list = NULL;
        char text[LOOKUP_ADDRESSES * 48 + 2] = "+";
        size_t len = 1, n = 0;
        int r;

        r = getaddrinfo(data, NULL, &hints, &list);
        if (r != 0) {
                const char *why = gai_strerror(r);

                (void) io_write_all(fd, "-", 1); /* a parent that does not hear it says so itself */
                (void) io_write_all(fd, why, strlen(why));
                return 0;
        }
        for (const struct addrinfo *a = list; a && n < LOOKUP_ADDRESSES; a = a->ai_next, n++)
                len += put_address(a, text + len, sizeof(text) - len);
        freeaddrinfo(list);
        return len > 1 ? io_write_all(fd, text, len - 1) : -EAFNOSUPPORT; /* without the last comma */
}

static void on_looked_up(int result, const char *answer, size_t len, void *userdata) {
        struct lookup *r = userdata;
        char why[160];

        (void) len;
        r->child = child_free(r->child);
        r->asking = false;
        if (result == 0 && answer[0] == '+' && answer[1]) {
                (void) snprintf(r->text, sizeof(r->text), "%s:%u:%s", r->host, (unsigned) r->port,
                                answer + 1);
                (void) sd_event_now(r->event, CLOCK_BOOTTIME, &r->taken);
                r->done(NULL, r->userdata);
                return;
        }
        (void) snprintf(why, sizeof(why), "the name %.64s cannot be looked up: %.64s", r->host,
                        result == -ETIMEDOUT             ? "the name servers do not answer"
                        : result == 0 && answer[0] == '-' ? answer + 1
                                                          : strerror(-result));
        r->done(why, r->userdata);
}

int lookup_ask(struct lookup *r) {
        const struct child_work w = {
                .name = "lookup",
                .timeout = LOOKUP_TIMEOUT,
                .run = look_up,
                .data = r->host,
                .done = on_looked_up,
                .userdata = r,
        };
        int k;

        if (r->asking)
                return 0;
        k = child_start(r->event, &w, &r->child);
        r->asking = k >= 0;
        return k;
}

const char *lookup_answer(const struct lookup *r, usec_t *ret_taken) {
        *ret_taken = r->taken;
        return r->text[0] ? r->text : NULL;
}

static inline void url_freep(CURLU **u) {
        curl_url_cleanup(*u);
}
static inline void part_freep(char **p) {
        curl_free(*p);
}

int lookup_new(sd_event *e, const char *url, lookup_done done, void *userdata, struct lookup **ret) {
        _cleanup_(lookup_freep) struct lookup *r = NULL;
        _cleanup_(url_freep) CURLU *u = curl_url();
        _cleanup_(part_freep) char *host = NULL;
        _cleanup_(part_freep) char *port = NULL;
        struct in_addr four;

        if (!u)
                return -ENOMEM;
        if (curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
            curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
            curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK)
                return -EINVAL;
        if (host[0] == '[' || inet_pton(AF_INET, host, &four) == 1)
                return 0;
        r = calloc(1, sizeof(*r));
        if (!r)
                return -ENOMEM;
        r->event = sd_event_ref(e);
        r->done = done;
        r->userdata = userdata;
        r->port = (uint16_t) strtoul(port, NULL, 10); /* libcurl has bounded it */
        r->host = strdup(host);
        if (!r->host)
                return -ENOMEM;
        *ret = TAKE_PTR(r);
        return 0;
}

struct lookup *lookup_free(struct lookup *r) {
        if (!r)
                return NULL;
        r->child = child_free(r->child);
        r->event = sd_event_unref(r->event);
        free(r->host);
        free(r);
        return NULL;
}
