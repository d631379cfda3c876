/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "http.h"
#include "grow.h"
#include "paths.h"
#include "http_loop.h"

#define RETRY_AFTER_MAX 3600 /* seconds: nobody waits so long */

struct body {
        char *data;
        size_t len, size;
        bool too_large;
};

static size_t take_body(char *data, size_t size, size_t n, void *userdata) {
        struct body *b = userdata;

        (void) size; /* always 1 */
        if (n > HTTP_ANSWER_MAX - b->len) {
                b->too_large = true;
                return 0;
        }
        if (grow(&b->data, &b->size, b->len + n, 1) < 0)
                return 0;
        memcpy(b->data + b->len, data, n);
        b->len += n;
        return n;
}

#define SET(option, value) (r = r == CURLE_OK ? curl_easy_setopt(curl, option, value) : r)

/* What http_loop.h leaves to the owner. */
static CURLcode set_request(CURL *curl, const struct http_question *q, struct body *b,
                            struct curl_slist *headers) {
        CURLcode r = CURLE_OK;

        SET(CURLOPT_URL, q->url);
        SET(CURLOPT_WRITEFUNCTION, take_body);
        SET(CURLOPT_WRITEDATA, b);
        if (q->ca && *q->ca)
                SET(CURLOPT_CAINFO, q->ca);
        if (q->crl && *q->crl)
                SET(CURLOPT_CRLFILE, q->crl);
        if (q->certificate && *q->certificate)
                SET(CURLOPT_SSLCERT, q->certificate);
        if (q->key && *q->key)
                SET(CURLOPT_SSLKEY, q->key);
        if (q->unix_socket)
                SET(CURLOPT_UNIX_SOCKET_PATH, q->unix_socket);
        if (q->method) {
                SET(CURLOPT_POSTFIELDS, "");
                SET(CURLOPT_POSTFIELDSIZE, 0L);
        }
        if (q->body) {
                SET(CURLOPT_POSTFIELDS, q->body);
                SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) strlen(q->body));
        }
        SET(CURLOPT_HTTPHEADER, q->body ? headers : headers->next);
        if (q->method)
                SET(CURLOPT_CUSTOMREQUEST, q->method);
        return r;
}

static const char *where(const struct http_question *q) {
        return q->unix_socket ? q->unix_socket : q->url;
}

/* What curl says, in the words of the kernel where it has them. */
static int transport_failure(const struct http_transfer *t, const struct http_question *q,
                             const struct body *b,
                             struct problem *p) {
        CURLcode code = t->code;
        long os = 0, sent = 0;

        if (b->too_large)
                return problem_set(p, -E2BIG, NULL, "the answer of %s is longer than %d MiB", where(q),
                                   HTTP_ANSWER_MAX / 1024 / 1024);
        if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
                return problem_set(p, -EINVAL, NULL, "'%s' is no http or https URL", where(q));
        p->no_answer = true;
        (void) curl_easy_getinfo(t->easy, CURLINFO_REQUEST_SIZE, &sent);
        p->sent = sent > 0;
        (void) curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &os);
        if (code == CURLE_COULDNT_CONNECT && os > 0)
                return problem_set(p, -(int) os, NULL, "no answer from %s: %s", where(q),
                                   strerror((int) os));
        if (code == CURLE_OPERATION_TIMEDOUT)
                return problem_set(p, -ETIMEDOUT, NULL, "no answer from %s within %u s", where(q),
                                   (unsigned) (q->timeout / USEC_PER_SEC));
        return problem_set(p, -ECONNREFUSED, NULL, "no answer from %s: %s", where(q),
                           t->tls[0] ? t->tls : curl_easy_strerror(code));
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

static int read_answer(CURL *curl, const struct body *b, const struct http_question *q, json_t **ret,
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
        struct http_transfer transfer; /* the first member */
        struct http_exchange *exchange;
        struct http_question request; /* as it is followed */
        char *location;
        struct body body;
        bool whole; /* there is an answer, or why there is none */
        size_t *left;
};

/* By a collector that does not lead, to the one that does; never from https to http. True: it is asked. */
static bool follow(struct transfer *t) {
        const char *to = NULL;
        long status = 0;

        (void) curl_easy_getinfo(t->transfer.easy, CURLINFO_RESPONSE_CODE, &status);
        (void) curl_easy_getinfo(t->transfer.easy, CURLINFO_REDIRECT_URL, &to);
        if (!t->request.follows || t->location || status != 307 || !to ||
            !(startswith(to, "https://") ||
              (startswith(to, "http://") && startswith(t->request.url, "http://"))))
                return false;
        t->location = strdup(to);
        if (!t->location || curl_easy_setopt(t->transfer.easy, CURLOPT_URL, t->location) != CURLE_OK)
                return false;
        t->request.url = t->location;
        t->body.len = 0;
        return http_transfer_start(&t->transfer) == 0;
}

static void on_done(struct http_transfer *transfer, const char *error) {
        struct transfer *t = (struct transfer *) transfer;

        if (!error && follow(t))
                return;
        t->whole = true;
        (*t->left)--;
}

static void begin_transfer(struct http_loop *l, struct transfer *t, struct http_exchange *x,
                           struct curl_slist *headers, size_t *left) {
        const struct http_options o = { .user_agent = "tpuctl/" TPU_HOSTD_VERSION,
                                        .connect_timeout = MIN(x->request.timeout, 5 * USEC_PER_SEC),
                                        .timeout = x->request.timeout };

        *t = (struct transfer){
                .transfer.done = on_done, .exchange = x, .request = x->request, .left = left
        };
        http_loop_add(l, &t->transfer);
        if (http_transfer_prepare(&t->transfer, &o) > 0 &&
            set_request(t->transfer.easy, &t->request, &t->body, headers) == CURLE_OK &&
            http_transfer_start(&t->transfer) == 0)
                (*left)++; /* else it is out of memory */
}

static void end_transfer(struct transfer *t) {
        struct http_exchange *x = t->exchange;

        x->answer = NULL;
        x->problem = (struct problem) { 0 };
        if (!t->whole)
                x->error = problem_set(&x->problem, -ENOMEM, NULL, "out of memory");
        else if (t->transfer.code != CURLE_OK)
                x->error = transport_failure(&t->transfer, &t->request, &t->body, &x->problem);
        else
                x->error = read_answer(t->transfer.easy, &t->body, &t->request, &x->answer, &x->problem);
        free(t->body.data);
        free(t->location);
}

/* Each takes two descriptors, and many are asked at once. */
static void allow_descriptors(void) {
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0)
                return;
        files.rlim_cur = files.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &files); /* then some hosts are not reached, and named */
}

int http_json_many(struct http_exchange *x, size_t n) {
        _cleanup_free_ struct transfer *t = calloc(n, sizeof(*t));
        _cleanup_(http_loop_freep) struct http_loop *loop = NULL;
        char json[] = "Content-Type: application/json",
             no_wait[] = "Expect:", /* by itself curl asks before a long body */
             caller[] = HTTP_NO_PAGE ": tpuctl";
        struct curl_slist third = { .data = caller }, second = { .data = no_wait, .next = &third },
                          headers = { .data = json, .next = &second };
        sd_event *e = NULL;
        size_t left = 0;
        int r = t ? sd_event_new(&e) : -ENOMEM;

        if (r >= 0)
                r = http_loop_new(e, "tpuctl", &loop);
        if (n > 256)
                allow_descriptors();
        for (size_t i = 0; i < n && r >= 0; i++)
                if (!x[i].skip)
                        begin_transfer(loop, &t[i], &x[i], &headers, &left);
        while (left > 0 && r >= 0)
                r = sd_event_run(e, UINT64_MAX);
        for (size_t i = 0; i < n && t && loop; i++)
                if (!x[i].skip)
                        end_transfer(&t[i]);
        loop = http_loop_free(loop); /* before what its transfers are in */
        sd_event_unref(e);
        return MIN(r, 0);
}

int http_json(const struct http_question *q, json_t **ret, struct problem *problem) {
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
