/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte chooses a table (255: a capture's words); then "key\0value\0…" as libmicrohttpd hands a
 * query over, any bytes. What is refused is named in valid UTF-8; what is taken is in the table, once, and
 * within its bounds.
 */
#include <assert.h>

#include "capture_words.h"
#include "clock.h"
#include "utf8.h"

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

static const struct argument all[] = {
        TAKES_TEXT("host", 0),
        { .name = "run", .kind = ARGUMENT_NAME, .most = 16 },
        TAKES_TEXT("reason", 20),
        TAKES_NUMBER("since", 0, INT64_MAX),
        TAKES_NUMBER("limit", 1, 1000),
        TAKES_NUMBER("wait", 0, 30),
        TAKES_TIME("from"),
        TAKES_TIME("until"),
        { .name = "host_of", .needed = true },
        TAKES_END,
};

static void check_why(int r, char *why) {
        assert(r == -EINVAL && why[0] && strlen(why) < ARGUMENTS_WHY_MAX);
        assert(utf8_scrub(why, strlen(why)) == 0);
}

static void read_capture(const struct http_request *q) {
        char why[ARGUMENTS_WHY_MAX] = "";
        struct capture_words words;
        int r = capture_words_parse(q, &words, why);

        if (r < 0)
                check_why(r, why);
        else
                assert(words.slice[0] && words.host[0] && words.incarnation[0] && words.round >= 0 &&
                       words.round <= 1 &&
                       words.worker >= 0 && words.taken >= 0 && words.hosts >= 0);
}

static void read_table(const struct http_request *q, const struct argument *table) {
        struct arguments a = { .table = table };
        const char *run;
        int r = arguments_read(&a, q);

        if (r < 0) {
                check_why(r, a.why);
                return;
        }
        if (table != all)
                return;
        run = arguments_text(&a, "run");
        assert(!run || strlen(run) < 16);
        assert(arguments_text(&a, "host_of"));
        assert(arguments_number(&a, "limit", 1) >= 1 && arguments_number(&a, "limit", 1) <= 1000);
        assert(arguments_number(&a, "wait", 0) <= 30 && arguments_number(&a, "from", 0) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
        struct http_request q = { 0 };
        usec_t t;

        if (len == 0)
                return 0;
        text = (const char *) data + 1;
        left = len - 1;
        if (data[0] == 255)
                read_capture(&q);
        else
                read_table(&q, data[0] & 1 ? all : &all[data[0] % ELEMENTSOF(all)]);
        if (memchr(data, 0, len) && clock_parse((const char *) data, &t) == 0)
                assert(t <= UINT64_C(253402300801) * USEC_PER_SEC);
        return 0;
}
