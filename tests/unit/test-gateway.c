/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway.h"
#include "json_text.h"
#include "large.h"
#include "test.h"

static void test_bytes(void) {
        static const struct {
                const char *text, *base64;
        } rows[] = { { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" } };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) { /* RFC 4648, 10 */
                json_t *v = gateway_bytes(rows[i].text, strlen(rows[i].text));
                struct gateway_kv kv = { .value = v };
                _cleanup_free_ char *back = NULL;
                size_t len;

                ASSERT_STREQ(json_string_value(v), rows[i].base64);
                ASSERT_OK(gateway_value(&kv, &back, &len));
                ASSERT_STREQ(back, rows[i].text);
                json_decref(v);
        }
        for (size_t i = 0; i < 3; i++) {
                static const char *const bad[] = { "Zg=", "Z===", "Zm9\"" };
                json_t *v = json_string(bad[i]);
                struct gateway_kv kv = { .value = v };
                char *back;
                size_t len;

                ASSERT_EQ(gateway_value(&kv, &back, &len), -EBADMSG);
                json_decref(v);
        }
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
                { "{\"error\":\"etcdserver: mvcc: database space exceeded\",\"code\":8}", 429, -ENOSPC, false },
                { "{\"error\":\"etcdserver: invalid auth token\",\"code\":16}", 401, -EACCES, true },
                { "{\"error\":\"etcdserver: user name is empty\",\"code\":3}", 400, -EBADMSG, true },
                { "{\"error\":\"etcdserver: permission denied\",\"code\":7}", 403, -EACCES, false },
                { "{\"error\":\"context deadline exceeded\",\"code\":2}", 500, -EAGAIN, false },
                { "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: request timed out\"}}", 503, -EAGAIN, false },
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

static json_t *hosts(unsigned n) {
        json_t *list = json_array();

        for (unsigned i = 0; i < n; i++)
                json_array_append_new(list, json_pack("{s:i, s:s}", "worker", (int) i, "host", "h"));
        return list;
}

static void test_large_records(void) {
        static const unsigned sizes[] = { 0, 1, 256, 257, 1000 };
        json_t *run = json_pack("{s:i, s:s, s:[]}", "v", 1, "name", "job", "slices"), *pieces = json_object(), *head, *whole;
        json_t *slice = json_pack("{s:i, s:o, s:o, s:s}", "v", 1, "roster", hosts(300), "missing", hosts(2), "state", "forming");

        for (size_t i = 0; i < ELEMENTSOF(sizes); i++)
                json_array_append_new(json_object_get(run, "slices"), json_pack("{s:s, s:o}", "slice", "s", "hosts", hosts(sizes[i])));
        ASSERT_OK(large_split("run/job", run, "7.1", &head, pieces));
        ASSERT_EQ(json_object_size(pieces), 0 + 1 + 1 + 2 + 4);
        ASSERT_TRUE(json_object_get(pieces, "hosts/run/job/7.1/4/3"));
        ASSERT_TRUE(large_has_pieces(head) && !large_has_pieces(run));
        ASSERT_TRUE(json_is_array(json_object_get(json_array_get(json_object_get(run, "slices"), 0), "hosts"))); /* the record itself stays */
        ASSERT_OK(large_join("run/job", head, pieces, &whole));
        ASSERT_TRUE(json_equal(whole, run));
        json_decref(whole);
        json_object_del(pieces, "hosts/run/job/7.1/3/1");
        ASSERT_EQ(large_join("run/job", head, pieces, &whole), -ENOENT);
        json_decref(head);
        ASSERT_OK(large_split("slice/s0", slice, "7.2", &head, pieces));
        ASSERT_OK(large_join("slice/s0", head, pieces, &whole));
        ASSERT_TRUE(json_equal(whole, slice));
        json_decref(head);
        json_decref(whole);
        ASSERT_EQ(large_split("intent/job", run, "7.3", &head, pieces), -EMSGSIZE);
        json_decref(run);
        json_decref(slice);
        json_decref(pieces);
}

TEST_MAIN(test_bytes, test_answers, test_lines, test_large_records)
