/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "http.h"

#define SENT_ON_MAX 2 /* it may have changed meanwhile */
#define RETRY_AFTER_MAX 3600 /* seconds: nobody waits so long */

DEFINE_CLEANUP(CURL *, curl_easy_cleanup)

struct body {
        char *data;
        size_t len, size;
        bool too_large;
};

static void body_clear(struct body *b) {
        free(b->data);
}

static size_t take_body(char *data, size_t size, size_t n, void *userdata) {
        struct body *b = userdata;
        char *grown;

        (void) size; /* always 1 */
        if (n > HTTP_ANSWER_MAX - b->len) {
                b->too_large = true;
                return 0;
        }
        if (n > b->size - b->len) {
                size_t wanted = MAX(b->size * 2, b->len + n);

                grown = realloc(b->data, wanted);
                if (!grown)
                        return 0;
                b->data = grown;
                b->size = wanted;
        }
        memcpy(b->data + b->len, data, n);
        b->len += n;
        return n;
}

#define SET(option, value) (r = r == CURLE_OK ? curl_easy_setopt(curl, option, value) : r)

/* What we announce bounds what the other side sends, too. */
static int limit_segments(void *userdata, curl_socket_t fd, curlsocktype purpose) {
        const unsigned *segment = userdata;
        const int bytes = (int) *segment;

        (void) purpose;
        return setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, sizeof(bytes)) < 0 ? CURL_SOCKOPT_ERROR :
                                                                                   CURL_SOCKOPT_OK;
}

static CURLcode prepare(CURL *curl, const struct http_request *q, struct body *b,
                        struct curl_slist *headers) {
        CURLcode r = CURLE_OK;

        SET(CURLOPT_URL, q->url);
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_NOPROXY, "*");
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_CONNECTTIMEOUT_MS, (long) MIN(q->timeout / USEC_PER_MSEC, (usec_t) 5000));
        SET(CURLOPT_TIMEOUT_MS, (long) (q->timeout / USEC_PER_MSEC));
        SET(CURLOPT_WRITEFUNCTION, take_body);
        SET(CURLOPT_WRITEDATA, b);
        SET(CURLOPT_USERAGENT, "tpuctl/" TPU_HOSTD_VERSION);
#if LIBCURL_VERSION_NUM >= 0x075500
        SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
        SET(CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
        if (q->ca && *q->ca) {
                SET(CURLOPT_CAINFO, q->ca);
                SET(CURLOPT_CAPATH, NULL); /* that file alone; and GnuTLS would read a whole folder */
        }
        if (q->certificate && *q->certificate)
                SET(CURLOPT_SSLCERT, q->certificate);
        if (q->key && *q->key)
                SET(CURLOPT_SSLKEY, q->key);
        if (q->segment > 0) {
                SET(CURLOPT_SOCKOPTFUNCTION, limit_segments);
                SET(CURLOPT_SOCKOPTDATA, (void *) (uintptr_t) &q->segment);
        }
        if (q->unix_socket)
                SET(CURLOPT_UNIX_SOCKET_PATH, q->unix_socket);
        if (q->post) {
                SET(CURLOPT_POSTFIELDS, "");
                SET(CURLOPT_POSTFIELDSIZE, 0L);
        }
        if (q->body) {
                SET(CURLOPT_POSTFIELDS, q->body);
                SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) strlen(q->body));
                SET(CURLOPT_HTTPHEADER, headers);
        }
        if (q->method)
                SET(CURLOPT_CUSTOMREQUEST, q->method);
        return r;
}

static const char *where(const struct http_request *q) {
        return q->unix_socket ? q->unix_socket : q->url;
}

/* What curl says, in the words of the kernel where it has them. */
static int transport_failure(CURL *curl, CURLcode code, const struct http_request *q, const struct body *b,
                             struct problem *p) {
        long os = 0;

        if (b->too_large)
                return problem_set(p, -E2BIG, NULL, "the answer of %s is longer than %d MiB", where(q),
                                   HTTP_ANSWER_MAX / 1024 / 1024);
        if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
                return problem_set(p, -EINVAL, NULL, "'%s' is no http or https URL", where(q));
        p->no_answer = true;
        (void) curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &os);
        if (code == CURLE_COULDNT_CONNECT && os > 0)
                return problem_set(p, -(int) os, NULL, "no answer from %s: %s", where(q),
                                   strerror((int) os));
        if (code == CURLE_OPERATION_TIMEDOUT)
                return problem_set(p, -ETIMEDOUT, NULL, "no answer from %s within %u s", where(q),
                                   (unsigned) (q->timeout / USEC_PER_SEC));
        return problem_set(p, -ECONNREFUSED, NULL, "no answer from %s: %s", where(q),
                           curl_easy_strerror(code));
}

/* Refused for a moment: when the server says so. */
static usec_t retry_after(CURL *curl, long status) {
        curl_off_t seconds = 0;

        if ((status != 503 && status != 429) ||
            curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &seconds) != CURLE_OK || seconds < 0)
                return 0;
        return (usec_t) MIN(seconds, (curl_off_t) RETRY_AFTER_MAX) * USEC_PER_SEC;
}

static int read_answer(CURL *curl, const struct body *b, const struct http_request *q, json_t **ret,
                       struct problem *p) {
        json_t *v = b->len > 0 ? json_loadb(b->data, b->len, JSON_REJECT_DUPLICATES, NULL) : NULL;
        const char *text = json_string_value(json_object_get(v, "error"));
        const char *elsewhere = json_string_value(json_object_get(v, "telemetry"));
        long status = 0;

        (void) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        if (status == 204 && !v) /* done, and nothing to say */
                v = json_object();
        if (status >= 200 && status < 300 && json_is_object(v)) {
                *ret = v;
                return 0;
        }
        p->retry_after = retry_after(curl, status);
        p->no_answer = status == 503;
        p->elsewhere = status == 404 && elsewhere;
        if (status == 200)
                (void) problem_set(p, 0, NULL,
                                   "the answer of %s is no JSON object: something else listens there",
                                   where(q));
        else if (elsewhere && *elsewhere)
                (void) problem_set(
                        p, 0, json_string_value(json_object_get(v, "remedy")),
                        "telemetry goes to %.200s: this collector keeps no events, lines and series",
                        elsewhere);
        else if (text)
                (void) problem_set(p, 0, json_string_value(json_object_get(v, "remedy")), "%s", text);
        else
                (void) problem_set(p, 0, NULL, "%s answers HTTP %ld", where(q), status);
        json_decref(v);
        return status == 404 ? -ENOENT : status == 409 ? -EBUSY : -EPROTO;
}

/* Another collector leads: the same call goes there, never from https to http. */
static bool is_sent_on(CURL *curl, const struct http_request *q) {
        char *to = NULL;
        long status = 0;

        if (q->unix_socket || curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK ||
            status != 307 || curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &to) != CURLE_OK || !to)
                return false;
        if (!startswith(to, "https://") && (!startswith(to, "http://") || startswith(q->url, "https://")))
                return false;
        return curl_easy_setopt(curl, CURLOPT_URL, to) == CURLE_OK;
}

int http_json(const struct http_request *q, json_t **ret, struct problem *problem) {
        _cleanup_(curl_easy_cleanupp) CURL *curl = curl_easy_init();
        _cleanup_(body_clear) struct body b = { 0 };
        char json[] = "Content-Type: application/json",
             no_wait[] = "Expect:"; /* by itself curl asks before a long body */
        struct curl_slist second = { .data = no_wait }, headers = { .data = json, .next = &second };
        CURLcode code;

        *problem = (struct problem) { 0 };
        if (!curl || prepare(curl, q, &b, &headers) != CURLE_OK)
                return problem_set(problem, -ENOMEM, NULL, "out of memory");
        code = curl_easy_perform(curl);
        for (unsigned i = 0; i < SENT_ON_MAX && code == CURLE_OK && is_sent_on(curl, q); i++) {
                b.len = 0;
                code = curl_easy_perform(curl);
        }
        if (code != CURLE_OK)
                return transport_failure(curl, code, q, &b, problem);
        return read_answer(curl, &b, q, ret, problem);
}

/* --- Many ---------------------------------------------------------------------------------------------- */

struct exchange {
        CURL *curl;
        struct body body;
        CURLcode code;
        bool done;
};

static void finish_many(CURLM *multi, struct exchange *x, size_t n) {
        CURLMsg *m;
        int left;

        while ((m = curl_multi_info_read(multi, &left)))
                for (size_t i = 0; m->msg == CURLMSG_DONE && i < n; i++)
                        if (x[i].curl == m->easy_handle) {
                                x[i].code = m->data.result;
                                x[i].done = true;
                        }
}

static void drive(CURLM *multi, struct exchange *x, size_t n) {
        int running = 1;

        while (running > 0) {
                if (curl_multi_perform(multi, &running) != CURLM_OK)
                        return;
                finish_many(multi, x, n);
                if (running > 0 && curl_multi_wait(multi, NULL, 0, 1000, NULL) != CURLM_OK)
                        return;
        }
        finish_many(multi, x, n);
}

static json_t *end_exchange(struct exchange *x, const struct http_request *q, struct problem *p) {
        json_t *answer = NULL;

        *p = (struct problem) { 0 };
        if (!x->curl || !x->done)
                (void) problem_set(p, -ENOMEM, NULL, "out of memory");
        else if (x->code != CURLE_OK)
                (void) transport_failure(x->curl, x->code, q, &x->body, p);
        else
                (void) read_answer(x->curl, &x->body, q, &answer, p); /* p says why there is none */
        curl_easy_cleanup(x->curl);
        body_clear(&x->body);
        return answer;
}

int http_json_many(const struct http_request *q, size_t n, json_t **ret, struct problem *problems) {
        _cleanup_free_ struct exchange *x = calloc(n, sizeof(*x));
        CURLM *multi = curl_multi_init();

        if (!x || !multi) {
                (void) curl_multi_cleanup(multi);
                return -ENOMEM;
        }
        for (size_t i = 0; i < n; i++) {
                x[i].curl = curl_easy_init();
                if (x[i].curl && prepare(x[i].curl, &q[i], &x[i].body, NULL) == CURLE_OK)
                        (void) curl_multi_add_handle(multi, x[i].curl); /* then it is never done */
        }
        drive(multi, x, n);
        for (size_t i = 0; i < n; i++) {
                if (x[i].curl)
                        (void) curl_multi_remove_handle(multi, x[i].curl);
                ret[i] = end_exchange(&x[i], &q[i], &problems[i]);
        }
        (void) curl_multi_cleanup(multi);
        return 0;
}

int socket_path(const char *root, const char *path, char **ret) {
        char *joined;

        if (asprintf(&joined, "%s%s", root && !streq(root, "/") ? root : "", path) < 0)
                return -ENOMEM;
        if (strlen(joined) >= sizeof(((struct sockaddr_un *) NULL)->sun_path)) {
                free(joined);
                return -ENAMETOOLONG;
        }
        *ret = joined;
        return 0;
}
