/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "http.h"

#define RETRY_AFTER_MAX 3600 /* seconds: nobody waits so long */

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
        if (q->method) {
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
        long os = 0, sent = 0;

        if (b->too_large)
                return problem_set(p, -E2BIG, NULL, "the answer of %s is longer than %d MiB", where(q),
                                   HTTP_ANSWER_MAX / 1024 / 1024);
        if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
                return problem_set(p, -EINVAL, NULL, "'%s' is no http or https URL", where(q));
        p->no_answer = true;
        (void) curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &sent);
        p->sent = sent > 0;
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

/* Captures (docs/api.md), as a text that holds any bytes. */
static json_t *read_bytes(CURL *curl, const struct body *b) {
        const char *type = NULL;

        (void) curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
        return type && streq(type, "application/x-protobuf")
                     ? json_stringn_nocheck(b->data ? b->data : "", b->len)
                     : NULL;
}

static int read_answer(CURL *curl, const struct body *b, const struct http_request *q, json_t **ret,
                       struct problem *p) {
        json_t *v = b->len > 0 ? json_loadb(b->data, b->len, JSON_REJECT_DUPLICATES, NULL) : NULL;
        const char *text = json_string_value(json_object_get(v, "error"));
        const char *elsewhere = json_string_value(json_object_get(v, "telemetry"));
        long status = 0;

        (void) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        if (status == 200 && !v)
                v = read_bytes(curl, b);
        if (status == 204 && !v) /* done, and nothing to say */
                v = json_object();
        if (status >= 200 && status < 300 && (json_is_object(v) || json_is_string(v))) {
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

/* --- Exchanges ----------------------------------------------------------------------------------------- */

struct transfer {
        CURL *curl; /* NULL: not asked for, or out of memory */
        char *location;
        struct body body;
        CURLcode code;
        bool done;
};

static void finish_transfers(CURLM *multi, struct transfer *t, size_t n) {
        CURLMsg *m;
        int left;

        while ((m = curl_multi_info_read(multi, &left)))
                for (size_t i = 0; m->msg == CURLMSG_DONE && i < n; i++)
                        if (t[i].curl == m->easy_handle) {
                                t[i].code = m->data.result;
                                t[i].done = true;
                        }
}

static void drive(CURLM *multi, struct transfer *t, size_t n) {
        int running = 1;

        while (running > 0) {
                if (curl_multi_perform(multi, &running) != CURLM_OK)
                        return;
                finish_transfers(multi, t, n);
                if (running > 0 && curl_multi_poll(multi, NULL, 0, 1000, NULL) != CURLM_OK)
                        return;
        }
}

/* By a collector that does not lead, to the one that does; never from https to http. */
static void follow(struct transfer *t, struct http_request *q) {
        const char *to = NULL;
        long status = 0;

        (void) curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
        (void) curl_easy_getinfo(t->curl, CURLINFO_REDIRECT_URL, &to);
        if (!q->follows || status != 307 || !to ||
            !(startswith(to, "https://") || (startswith(to, "http://") && startswith(q->url, "http://"))))
                return;
        t->location = strdup(to);
        t->body.len = 0;
        if (!t->location)
                t->code = CURLE_OUT_OF_MEMORY;
        else
                t->code = curl_easy_setopt(t->curl, CURLOPT_URL, t->location);
        if (t->code == CURLE_OK)
                t->code = curl_easy_perform(t->curl);
        q->url = t->location ? t->location : q->url;
}

static void end_transfer(struct transfer *t, struct http_exchange *x) {
        struct http_request q = x->request;

        x->answer = NULL;
        x->problem = (struct problem) { 0 };
        if (t->done && t->code == CURLE_OK)
                follow(t, &q);
        if (!t->done)
                x->error = problem_set(&x->problem, -ENOMEM, NULL, "out of memory");
        else if (t->code != CURLE_OK)
                x->error = transport_failure(t->curl, t->code, &q, &t->body, &x->problem);
        else
                x->error = read_answer(t->curl, &t->body, &q, &x->answer, &x->problem);
        curl_easy_cleanup(t->curl);
        body_clear(&t->body);
        free(t->location);
}

int http_json_many(struct http_exchange *x, size_t n) {
        _cleanup_free_ struct transfer *t = calloc(n, sizeof(*t));
        char json[] = "Content-Type: application/json",
             no_wait[] = "Expect:"; /* by itself curl asks before a long body */
        struct curl_slist second = { .data = no_wait }, headers = { .data = json, .next = &second };
        CURLM *multi = curl_multi_init();

        if (!t || !multi) {
                (void) curl_multi_cleanup(multi);
                return -ENOMEM;
        }
        for (size_t i = 0; i < n; i++) {
                t[i].curl = x[i].skip ? NULL : curl_easy_init();
                if (t[i].curl && prepare(t[i].curl, &x[i].request, &t[i].body, &headers) == CURLE_OK)
                        (void) curl_multi_add_handle(multi, t[i].curl); /* then it is never done */
        }
        drive(multi, t, n);
        for (size_t i = 0; i < n; i++) {
                if (t[i].curl)
                        (void) curl_multi_remove_handle(multi, t[i].curl);
                if (!x[i].skip)
                        end_transfer(&t[i], &x[i]);
        }
        (void) curl_multi_cleanup(multi);
        return 0;
}

int http_json(const struct http_request *q, json_t **ret, struct problem *problem) {
        struct http_exchange x = { .request = *q };
        int r = http_json_many(&x, 1);

        if (r < 0) {
                *problem = (struct problem) { 0 };
                return problem_set(problem, r, NULL, "out of memory");
        }
        *problem = x.problem;
        if (x.error == 0)
                *ret = x.answer;
        return x.error;
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
