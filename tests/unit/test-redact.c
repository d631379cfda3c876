/* SPDX-License-Identifier: Apache-2.0 */
/* What is taken out of a bundle, and what stays. */
#include "redact.h"
#include "test.h"

static void check(const char *text, const char *want) {
        _cleanup_free_ char *got = redact_text(text);

        ASSERT_STREQ(got, want);
}

static void secrets(void) {
        check("HF_TOKEN=abc next", "HF_TOKEN=**** next");
        check("python3 t.py --api-key=x --token y --lr 3",
              "python3 t.py --api-key=**** --token **** --lr 3");
        check("{\"db_password\": \"x y\", \"n\": 1}", "{\"db_password\": \"****\", \"n\": 1}");
        check("a \\\"wandb_key\\\": \\\"x\\\"", "a \\\"wandb_key\\\": \\\"****\"");
        check("Authorization: Bearer abc.def", "Authorization: ****");
        check("curl -H 'authorization: Basic QQ=='", "curl -H 'authorization: ****'");
        check("sent Bearer abc", "sent Bearer ****");
        check("http://u:p@w.x:80/y?z", "http://****@w.x:80/y?z");
        check("got hf_abcdefghijklmnop, ok", "got ****, ok");
        check("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ", "****");
        check("password:", "password:");
}

static void others(void) {
        static const char *const lines[] = {
                "",
                "completed step: 5, seconds: 0.2",
                "token in a sentence",
                "http://host:4318/v1/logs",
                "/srv/train.py:20 in exchange",
                "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                "12345678-1234-1234-1234-123456789abc-12345678",
                "x@y.z",
                "\xff\x01",
                "keyboard=us monkeys=3",
                "a_very_long_identifier_of_a_function_in_some_library_of_c",
        };

        for (size_t i = 0; i < ELEMENTSOF(lines); i++)
                check(lines[i], lines[i]);
}

static void objects(void) {
        json_t *v = json_pack("{s:[s, {s:s, s:i}], s:s}", "lines", "A_KEY=x", "why", "token: y", "secret", 5,
                              "api_key", "z");
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(redact_json(v));
        text = json_dumps(v, JSON_SORT_KEYS | JSON_COMPACT);
        ASSERT_STREQ(
                text,
                "{\"api_key\":\"****\",\"lines\":[\"A_KEY=****\",{\"secret\":5,\"why\":\"token: ****\"}]}");
        json_decref(v);
}

TEST_MAIN(secrets, others, objects)
