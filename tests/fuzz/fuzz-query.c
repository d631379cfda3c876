/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte chooses what is allowed (255: a capture's words); then "key\0value\0…" as libmicrohttpd hands a query
 * over; certificates' lists, too. */
#include "capture_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const char *text;
static size_t left;

static const char *next_word(void) {
        const char *word = text;
        size_t n = left > 0 ? strnlen(text, left) : 0;

        if (left == 0 || n == left)
                return NULL;
        text += n + 1;
        left -= n + 1;
        return word;
}

/* Stands in for the server's. */
int http_query(const struct http_request *q,
               int (*visit)(const char *key, const char *value, void *userdata), void *userdata) {
        (void) q;
        for (;;) {
                const char *key = next_word(), *value = next_word();
                int r;

                if (!key)
                        return 0;
                r = visit(key, value ? value : "", userdata);
                if (r != 0)
                        return r;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
        struct http_request q = { 0 };
        char why[QUERY_WHY_MAX] = "";
        struct query query;
        int64_t t;
        int r;

        if (len == 0)
                return 0;
        text = (const char *) data + 1;
        left = len - 1;
        if (data[0] == 255) {
                struct capture_words words;

                r = capture_words_parse(&q, &words, why);
                if (r < 0 && (r != -EINVAL || !why[0]))
                        abort();
                if (r == 0 && (!words.slice[0] || !words.host[0] || !words.incarnation[0] ||
                               words.round > 1 || words.worker < 0 || words.taken < 0 || words.hosts < 0))
                        abort();
                return 0;
        }
        r = query_parse(&q, data[0] & 1 ? (1U << _QUERY_MAX) - 1 : data[0], 1000, &query, why);
        if (r < 0 && (r != -EINVAL || !why[0]))
                abort();
        if (r == 0 && (query.number[QUERY_LIMIT] == 0 || query.number[QUERY_LIMIT] > 1000 ||
                       query.number[QUERY_WAIT] > QUERY_WAIT_MAX || query.number[QUERY_FROM] < -1))
                abort();
        if (memchr(data, 0, len) && query_time((const char *) data, &t) == 0 && t < 0)
                abort();
        return 0;
}
