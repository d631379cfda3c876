/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway.h"
#include "json_text.h"
#include "test.h"

static json_t *value_of(const char *base64) {
        json_t *text = json_string(base64), *v = gateway_value_json(&(struct gateway_kv){ .value = text });

        json_decref(text);
        return v;
}

static void test_bytes(void) {
        static const struct {
                const char *text, *base64;
        } rows[] = { { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" },
                     { "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" } };
        static const char *const bad[] = { "", "eyJhIjoxfQ", "eyJhIjoxfQ=", "eyJhIjoxf===", "eyJhIjoxfQ=\"",
                                           "eyJhIjox\nfQ==", "W10=", "H4sIAAAA" };
        char *data = malloc(600), *whole = malloc(1200);
        json_t *v;

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) { /* RFC 4648, 10 */
                v = gateway_bytes(rows[i].text, strlen(rows[i].text));
                ASSERT_STREQ(json_string_value(v), rows[i].base64);
                json_decref(v);
        }
        v = value_of("eyJhIjoxfQ==");
        ASSERT_EQ(json_integer_value(json_object_get(v, "a")), 1);
        json_decref(v);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_TRUE(!value_of(bad[i]));
        memset(data, 'x', 599); /* longer than a line of PEM */
        data[599] = '\0';
        (void) snprintf(whole, 1200, "{\"key\":\"%s\"}", data);
        v = gateway_bytes(whole, strlen(whole));
        ASSERT_TRUE(!strpbrk(json_string_value(v), "\r\n "));
        json_t *back = value_of(json_string_value(v));
        ASSERT_STREQ(json_string_value(json_object_get(back, "key")), data);
        json_decref(back);
        json_decref(v);
        free(data);
        free(whole);
}

static void test_answers(void) {
        static const struct {
                const char *text;
                long status;
                int error;
                bool token;
        } rows[] = {
                { "{\"header\":{\"revision\":\"7\",\"cluster_id\":\"12\"}}", 200, 0, false },
                { "{\"error\":\"etcdserver: requested lease not found\",\"code\":5}", 404, -ENOENT, false },
                { "{\"error\":\"etcdserver: mvcc: database space exceeded\",\"code\":8}", 429, -ENOSPC,
                  false },
                { "{\"error\":\"etcdserver: invalid auth token\",\"code\":16}", 401, -EACCES, true },
                { "{\"error\":\"etcdserver: user name is empty\",\"code\":3}", 400, -EBADMSG, true },
                { "{\"error\":\"etcdserver: permission denied\",\"code\":7}", 403, -EACCES, false },
                { "{\"error\":\"context deadline exceeded\",\"code\":2}", 500, -EAGAIN, false },
                { "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: request timed "
                  "out\"}}", 503, -EAGAIN, false },
                { "404 page not found\n", 404, -EAGAIN, false },
                { "", 200, -EAGAIN, false },
                { "[]", 200, -EAGAIN, false },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                struct gateway_answer a;

                gateway_parse(rows[i].text, strlen(rows[i].text), rows[i].status, &a);
                if (a.error != rows[i].error || a.about_token != rows[i].token)
                        test_fail(__FILE__, __LINE__, "row %zu: %d", i, a.error);
                if (i == 0)
                        ASSERT_TRUE(a.revision == 7 && streq(a.cluster, "12"));
                gateway_answer_clear(&a);
        }
}

static int feed(struct gateway_lines *l, const char *text) {
        int r = 0, x;

        for (; *text; text++) { /* a byte at a time */
                x = gateway_lines(l, text, 1);
                if (x != 0)
                        r = x;
        }
        return r;
}

static void test_lines(void) {
        struct gateway_lines l = { 0 };
        char *line = malloc(GATEWAY_LINE_MAX + 2);

        ASSERT_EQ(feed(&l, "{\"result\":{\"created\":true}}\n"), 0);
        ASSERT_EQ(feed(&l, "{\"result\":{\"events\":[{\"type\":\"DELETE\"}]}}"), 0);
        ASSERT_EQ(feed(&l, "\n"), 1);
        ASSERT_EQ(feed(&l, "{\"result\":{\"canceled\":true,\"compact_revision\":\"4\"}}\n"), -EPIPE);
        ASSERT_EQ(feed(&l, "{\"error\":{}}\n"), -EPIPE);
        memset(line, 'x', GATEWAY_LINE_MAX + 1);
        ASSERT_EQ(gateway_lines(&l, line, GATEWAY_LINE_MAX + 1), -E2BIG);
        gateway_lines_clear(&l);
        free(line);
}

/* The value of a put, as etcd would give it back. */
static json_t *put_and_got(const json_t *record, size_t *ret_len) {
        _cleanup_free_ char *text = json_dumps(record, JSON_COMPACT);
        json_t *put = gateway_put("/k", text, 0, ret_len),
               *v = gateway_value_json(&(struct gateway_kv){
                       .value = json_object_get(json_object_get(put, "requestPut"), "value") });

        json_decref(put);
        return v;
}

static void test_large_records(void) {
        static const unsigned sizes[] = { 0, 1, 1000, 20000, 65536 };

        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                json_t *hosts = json_array(), *run = json_pack("{s:i, s:o}", "v", 1, "hosts", hosts), *back;
                size_t len, plain = 0;

                for (unsigned w = 0; w < sizes[i]; w++)
                        json_array_append_new(hosts, json_pack("{s:i, s:o, s:[o]}", "worker", (int) w % 4096,
                                                               "host",
                                                               json_sprintf("t1v-n-1a2b3c4d-w-%u", w),
                                                               "address",
                                                               json_sprintf("10.%u.%u.%u", w >> 16,
                                                                            w >> 8 & 255, w & 255)));
                plain = json_dumpb(run, NULL, 0, JSON_COMPACT);
                back = put_and_got(run, &len);
                ASSERT_TRUE(json_equal(back, run));
                ASSERT_EQ(len < plain, plain > GATEWAY_PACKED); /* and small ones can be read by people */
                ASSERT_TRUE(len < 1000 * 1000); /* a run over all hosts that there may be is one value */
                json_decref(back);
                json_decref(run);
        }
}

/* What would not be read back is not packed, so that who writes it refuses it. */
static void test_too_large_to_read(void) {
        char *text = malloc(GATEWAY_TEXT_MAX + 2);
        size_t len;

        memset(text, 'x', GATEWAY_TEXT_MAX + 1);
        text[GATEWAY_TEXT_MAX] = '\0';
        json_decref(gateway_put("/k", text, 0, &len));
        ASSERT_TRUE(len < 1000 * 1000);
        text[GATEWAY_TEXT_MAX] = 'x';
        text[GATEWAY_TEXT_MAX + 1] = '\0';
        json_decref(gateway_put("/k", text, 0, &len));
        ASSERT_EQ(len, GATEWAY_TEXT_MAX + 1);
        free(text);
}

TEST_MAIN(test_bytes, test_answers, test_lines, test_large_records, test_too_large_to_read)
