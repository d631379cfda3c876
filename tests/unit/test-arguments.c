/* SPDX-License-Identifier: Apache-2.0 */
/* The query arguments of a call by its table, and which call a path and a method are. */
#include "http_routes.h"
#include "test.h"

static const struct argument page[] = {
        TAKES_NUMBER("since", 0, INT64_MAX),
        TAKES_NUMBER("wait", 0, 30),
        TAKES_TIME("until"),
        { .name = "run", .kind = ARGUMENT_NAME, .most = 8 },
        TAKES_TEXT("reason", 6),
        TAKES_END,
};

#define ASSERT_WRONG(a, key, value, words)                                  \
        do {                                                                \
                ASSERT_EQ(arguments_take(a, key, value), -EINVAL);          \
                ASSERT_STREQ((a)->why, words);                              \
        } while (false)

static void test_names(void) {
        const struct argument two[] = { TAKES_TEXT("since", 0), TAKES_TEXT("wait", 0), TAKES_END },
                              some[] = { TAKES_TEXT("note", 0), TAKES_SOME("peer"), TAKES_END };
        struct arguments a = { .table = two }, none = { 0 };
        char longer[4000];

        ASSERT_OK(arguments_take(&a, "wait", "1"));
        ASSERT_TRUE(!arguments_text(&a, "since"));
        ASSERT_OK(arguments_take(&a, "since", "2"));
        ASSERT_EQ(a.given, 3);
        ASSERT_STREQ(arguments_text(&a, "wait"), "1");
        ASSERT_WRONG(&a, "since", "1", "since= is given twice");
        ASSERT_WRONG(&a, "Since", "1", "Since= is not known; this call takes since=, wait=");
        ASSERT_WRONG(&a, "", "1", "= is not known; this call takes since=, wait=");
        ASSERT_WRONG(&a, "\xff\n\x1b", "1", "?\n?= is not known; this call takes since=, wait=");
        ASSERT_WRONG(&none, "x", "", "x= is not known; this call takes none");
        memset(longer, 'k', sizeof(longer) - 1);
        longer[sizeof(longer) - 1] = 0;
        a.table = page;
        ASSERT_EQ(arguments_take(&a, longer, ""), -EINVAL);
        ASSERT_TRUE(strlen(a.why) < sizeof(a.why));
        ASSERT_TRUE(strstr(a.why, "this call takes since=, wait=, until=, run=, reason="));
        a.lenient = true;
        ASSERT_OK(arguments_take(&a, longer, ""));
        a = (struct arguments){ .table = some };
        ASSERT_OK(arguments_take(&a, "note", ""));
        ASSERT_TRUE(!arguments_text(&a, "note"));
        ASSERT_WRONG(&a, "peer", "", "peer= is empty");
}

static void test_words(void) {
        static const char *const states[] = { "ready", "degraded", NULL };
        const struct argument table[] = { TAKES_WORD("state", states), TAKES_END };
        char longer[4000];
        struct arguments a;

        a = (struct arguments){ .table = table };
        ASSERT_OK(arguments_take(&a, "state", "ready"));
        a = (struct arguments){ .table = table };
        ASSERT_OK(arguments_take(&a, "state", ""));
        ASSERT_TRUE(!arguments_text(&a, "state"));
        a = (struct arguments){ .table = table };
        ASSERT_WRONG(&a, "state", "redy\xff\n",
                     "state=redy?? is not known; known: ready, degraded");
        a = (struct arguments){ .table = table };
        ASSERT_WRONG(&a, "state", "Reday",
                     "state=Reday is not known; did you mean 'ready'? known: ready, degraded");
        memset(longer, 'k', sizeof(longer) - 1);
        longer[sizeof(longer) - 1] = 0;
        a = (struct arguments){ .table = table };
        ASSERT_EQ(arguments_take(&a, "state", longer), -EINVAL);
        ASSERT_TRUE(strlen(a.why) < 120);
}

static int take_alone(const char *key, const char *value, struct arguments *ret) {
        *ret = (struct arguments){ .table = page };
        return arguments_take(ret, key, value);
}

static void test_values(void) {
        static const char *const wrong[] = { "", "31", "-1", "+1", " 1", "1 ", "1x", "300", "x",
                                             "18446744073709551616",
                                             "9999999999999999999999", "0x10" };
        struct arguments a;

        ASSERT_OK(take_alone("wait", "0", &a));
        ASSERT_EQ(arguments_number(&a, "wait", 7), 0);
        ASSERT_OK(take_alone("wait", "30", &a));
        ASSERT_EQ(arguments_number(&a, "wait", 7), 30);
        ASSERT_OK(take_alone("wait", "0000000000000000000000030", &a));
        ASSERT_EQ(arguments_number(&a, "wait", 7), 30);
        ASSERT_OK(take_alone("since", "9223372036854775807", &a));
        ASSERT_TRUE(arguments_number(&a, "since", 7) == INT64_MAX);
        ASSERT_EQ(take_alone("since", "9223372036854775808", &a), -EINVAL);
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                ASSERT_EQ(take_alone("wait", wrong[i], &a), -EINVAL);
        ASSERT_STREQ(a.why, "wait=0x10 is no number from 0 to 30");
        ASSERT_EQ(take_alone("since", "\xff", &a), -EINVAL);
        ASSERT_STREQ(a.why, "since=? is no number from 0 up");
        ASSERT_OK(take_alone("until", "2026-11-21T05:00:00Z", &a));
        ASSERT_TRUE(arguments_number(&a, "until", 0) == INT64_C(1795237200000000));
        ASSERT_EQ(take_alone("until", "tomorrow", &a), -EINVAL);
        ASSERT_OK(take_alone("run", "train-7", &a));
        ASSERT_EQ(take_alone("run", "train-17", &a), -EINVAL);
        ASSERT_STREQ(a.why, "run= takes at most 7 bytes");
        ASSERT_EQ(take_alone("run", "a b", &a), -EINVAL);
        ASSERT_OK(take_alone("reason", "a b!?", &a));
        ASSERT_EQ(take_alone("reason", "a b!??", &a), -EINVAL);
}

/* --- Routes -------------------------------------------------------------------------------------------- */

static const struct own_route {
        struct http_route route;
        int number;
} routes[] = {
        { ROUTE("GET", "/healthz"), 1 },
        { ROUTE("GET", "/v1/runs"), 2 },
        { ROUTE("POST", "/v1/runs"), 3 },
        { ROUTE("DELETE", "/v1/runs/NAME"), 4 },
        { ROUTE_WITH("POST", "/v1/runs/NAME/capture", page), 5 },
        { ROUTE("DELETE", "/v1/slices/SLICE/slots/NUMBER"), 6 },
};
static const struct http_route_table table = ROUTE_TABLE(routes);

static int find(const char *method, const char *path, struct routed *ret,
                char allow[static HTTP_ALLOW_MAX]) {
        const struct http_request q = { .method = method, .path = path };
        const struct http_route *r = routes_find(&table, &q, ret, allow);

        return r ? ((const struct own_route *) (const void *) r)->number : 0;
}

static void test_routes(void) {
        static const char *const nowhere[] = { "", "/", "/healthz/", "/v1/runs/", "/v1/runs/a/capture/",
                                               "/v1/runs//capture",
                                               "/v1/runs/a/b", "/v1/slices/s/slots/", "/v1/slices//slots/1",
                                               "/V1/runs" };
        char allow[HTTP_ALLOW_MAX], longer[ROUTE_PART_MAX + 16] = "/v1/runs/";
        struct routed r;

        ASSERT_EQ(find("GET", "/healthz", &r, allow), 1);
        ASSERT_EQ(find("HEAD", "/healthz", &r, allow), 1);
        ASSERT_EQ(find("POST", "/v1/runs", &r, allow), 3);
        ASSERT_TRUE(!r.arguments.table);
        ASSERT_EQ(find("DELETE", "/v1/runs/NAME", &r, allow), 4);
        ASSERT_STREQ(r.part[0], "NAME");
        ASSERT_EQ(find("POST", "/v1/runs/a.b/capture", &r, allow), 5);
        ASSERT_STREQ(r.part[0], "a.b");
        ASSERT_TRUE(r.arguments.table == page);
        ASSERT_EQ(find("DELETE", "/v1/slices/s/slots/17", &r, allow), 6);
        ASSERT_STREQ(r.part[1], "17");
        for (size_t i = 0; i < ELEMENTSOF(nowhere); i++) {
                ASSERT_EQ(find("GET", nowhere[i], &r, allow), 0);
                ASSERT_STREQ(allow, "");
        }
        ASSERT_EQ(find("PUT", "/v1/runs", &r, allow), 0);
        ASSERT_STREQ(allow, "GET, HEAD, POST");
        ASSERT_EQ(find("GET", "/v1/runs/a", &r, allow), 0);
        ASSERT_STREQ(allow, "DELETE");
        memset(longer + 9, 'x', ROUTE_PART_MAX - 1);
        ASSERT_EQ(find("DELETE", longer, &r, allow), 4);
        longer[9 + ROUTE_PART_MAX - 1] = 'x';
        ASSERT_EQ(find("DELETE", longer, &r, allow), 0);
}

static void test_refusals(void) {
        struct http_request q = { .method = "PUT", .path = "/v1/\xff" };
        struct http_reply reply = { 0 };

        routes_refuse(&table, &q, "", &reply);
        ASSERT_EQ(reply.status, 404);
        ASSERT_TRUE(memmem(reply.body, reply.len, "GET /v1/runs, POST /v1/runs, DELETE /v1/runs/NAME", 49));
        http_reply_clear(&reply);
        reply = (struct http_reply){ 0 };
        routes_refuse(&table, &q, "GET, HEAD", &reply);
        ASSERT_EQ(reply.status, 405);
        ASSERT_STREQ(reply.allow, "GET, HEAD");
        ASSERT_TRUE(memmem(reply.body, reply.len, "PUT /v1/? is not a call", 23));
        http_reply_clear(&reply);
}

TEST_MAIN(test_names, test_words, test_values, test_routes, test_refusals)
