/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"
#include "sync_answer.h"
#include "test.h"

static int parse(const char *text, struct sync_answer *ret, char *why) {
        return sync_answer_parse(text, strlen(text), ret, why);
}

static void test_good(void) {
        _cleanup_sync_answer_ struct sync_answer a = SYNC_ANSWER_NULL;
        char why[SYNC_WHY_MAX] = "";

        ASSERT_OK(parse("{\"v\":2,\"lease\":7.5,\"term\":0,\"store\":\"\",\"revision\":\"e.9\","
                        "\"whole\":true,\"tell\":false,\"conflict\":null,\"new\":[1],"
                        "\"records\":{\"slice/s0\":{\"v\":1},\"run/a\":null,\"later/x\":{},\"slice/\":{}}}",
                        &a, why));
        ASSERT_EQ(a.lease, 7500 * USEC_PER_MSEC);
        ASSERT_STREQ(a.revision, "e.9");
        ASSERT_TRUE(a.whole && !a.tell && !a.conflict);
        ASSERT_EQ(a.term, 0);
        ASSERT_STREQ(a.store, "");
        /* kinds that are not known, and keys without a name: passed over */
        ASSERT_EQ(json_object_size(a.records), 2);
        ASSERT_TRUE(json_is_null(json_object_get(a.records, "run/a")));
}

static void test_term(void) {
        _cleanup_sync_answer_ struct sync_answer a = SYNC_ANSWER_NULL;
        char why[SYNC_WHY_MAX] = "";

        ASSERT_OK(parse("{\"v\":1,\"lease\":15,\"revision\":\"\",\"term\":9007199254740993,"
                        "\"store\":\"cdf818194e3a8c32\"}", &a, why));
        ASSERT_EQ(a.term, 9007199254740993);
        ASSERT_STREQ(a.store, "cdf818194e3a8c32");
}

static void test_conflict(void) {
        _cleanup_sync_answer_ struct sync_answer a = SYNC_ANSWER_NULL;
        char why[SYNC_WHY_MAX] = "";

        ASSERT_OK(parse("{\"v\":1,\"lease\":15,\"term\":0,\"store\":\"\",\"revision\":\"\","
                        "\"conflict\":{\"holder\":\"h\\u00021\",\"id\":7,\"since\":-4}}", &a, why));
        ASSERT_TRUE(a.conflict && !a.whole);
        ASSERT_STREQ(a.holder, "h?1");
        ASSERT_STREQ(a.holder_id, "");
        ASSERT_EQ(a.since, 0);
        ASSERT_EQ(json_object_size(a.records), 0);
}

static void test_bad(void) {
        static const struct {
                const char *text, *why;
        } table[] = {
                { "", "no JSON" },
                { "[]", "no object with" },
                { "{\"v\":0,\"lease\":15,\"revision\":\"a\"}", "no object with" },
                { "{\"v\":1,\"lease\":\"15\",\"revision\":\"a\"}", "lease is no number" },
                { "{\"v\":1,\"lease\":1e300,\"revision\":\"a\"}", "lease is no number" },
                { "{\"v\":1,\"lease\":-1,\"revision\":\"a\"}", "lease is no number" },
                { "{\"v\":1,\"lease\":15}", "revision is no text" },
                { "{\"v\":1,\"lease\":15,\"revision\":\"a\\n\"}", "revision is no text" },
                { "{\"v\":1,\"lease\":15,\"term\":0,\"store\":\"\",\"revision\":\"a\",\"records\":[]}",
                  "records is no object" },
                { "{\"v\":1,\"lease\":15,\"term\":0,\"store\":\"\",\"revision\":\"a\","
                  "\"records\":{\"run/a\":1}}", "record run/a is no object" },
                { "{\"v\":1,\"lease\":15,\"term\":0,\"store\":\"\",\"revision\":\"a\","
                  "\"records\":{\"run/\\u0007\":{}}}", "has a key that is none" },
                { "{\"v\":1,\"lease\":15,\"term\":0,\"store\":\"\",\"revision\":\"a\",\"conflict\":true}",
                  "conflict is no object" },
                { "{\"v\":1,\"lease\":15,\"revision\":\"a\",\"term\":-1}", "term is no whole number" },
                { "{\"v\":1,\"lease\":15,\"revision\":\"a\",\"store\":\"\"}", "term is no whole number" },
                { "{\"v\":1,\"lease\":15,\"revision\":\"a\",\"term\":0}", "store is no text" },
                { "{\"v\":1,\"lease\":15,\"revision\":\"a\",\"term\":\"7\"}", "term is no whole number" },
                { "{\"v\":1,\"lease\":15,\"term\":0,\"revision\":\"a\",\"store\":7}", "store is no text" },
                { "{\"v\":1,\"lease\":15,\"term\":0,\"revision\":\"a\","
                  "\"store\":\"12345678901234567890123456789012345678901\"}", "store is no text" },
                { "{\"v\":1,\"v\":1,\"lease\":15,\"revision\":\"a\"}", "no JSON: duplicate" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                _cleanup_sync_answer_ struct sync_answer a = SYNC_ANSWER_NULL;
                char why[SYNC_WHY_MAX] = "";

                ASSERT_EQ(parse(table[i].text, &a, why), -EBADMSG);
                ASSERT_TRUE(startswith(why, table[i].why) || strstr(why, table[i].why));
                ASSERT_TRUE(!a.records);
        }
}

static void test_names(void) {
        enum registry_kind k;

        for (enum registry_kind i = 0; i < _REGISTRY_KIND_MAX; i++) {
                ASSERT_OK(registry_kind_parse(registry_kind_name(i), &k));
                ASSERT_EQ(k, i);
        }
        ASSERT_EQ(registry_kind_parse("consul", &k), -EINVAL);
        for (enum registry_state s = 0; s < _REGISTRY_STATE_MAX; s++)
                ASSERT_TRUE(registry_state_name(s)[0]);
}

TEST_MAIN(test_good, test_term, test_conflict, test_bad, test_names)
