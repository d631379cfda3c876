/* SPDX-License-Identifier: Apache-2.0 */
#include "otlp_answer.h"
#include "test.h"

#define PROTOBUF "application/x-protobuf"

static enum answer judge(long status, const char *type, const char *body, size_t len, uint64_t *rejected,
                         char *text) {
        return answer_judge(status, type, body, len, rejected, text);
}

static void test_status(void) {
        const struct {
                long status;
                enum answer answer;
        } table[] = {
                { 200, ANSWER_DONE },    { 400, ANSWER_REFUSED }, { 413, ANSWER_REFUSED },
                { 422, ANSWER_REFUSED }, { 429, ANSWER_RETRY },   { 502, ANSWER_RETRY },
                { 503, ANSWER_RETRY },   { 504, ANSWER_RETRY },   { 401, ANSWER_PARKED },
                { 403, ANSWER_PARKED },  { 404, ANSWER_PARKED },  { 408, ANSWER_PARKED },
                { 500, ANSWER_PARKED },  { 301, ANSWER_PARKED },  { 204, ANSWER_PARKED },
                { 0, ANSWER_PARKED },    { 999, ANSWER_PARKED },
        };
        char text[ANSWER_TEXT_MAX];
        uint64_t rejected = 9;

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                ASSERT_EQ(judge(table[i].status, NULL, NULL, 0, &rejected, text), table[i].answer);
                ASSERT_EQ(rejected, 0);
                ASSERT_EQ(text[0] == '\0', table[i].answer == ANSWER_DONE);
        }
        (void) judge(401, NULL, NULL, 0, &rejected, text);
        ASSERT_STREQ(text, "HTTP 401");
}

static void test_partial_success(void) {
        /* ExportMetricsServiceResponse { 1: { 1: 3, 2: "bad\nname" } }, by hand */
        static const char some[] = "\x0a\x0c\x08\x03\x12\x08" "bad\nname";
        static const char none[] = "\x0a\x06\x12\x04" "mind"; /* rejected = 0: a warning */
        static const char negative[] = "\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        char text[ANSWER_TEXT_MAX];
        uint64_t rejected;

        ASSERT_EQ(judge(200, PROTOBUF, some, sizeof(some) - 1, &rejected, text), ANSWER_PARTIAL);
        ASSERT_EQ(rejected, 3);
        ASSERT_STREQ(text, "partly refused: bad?name");
        ASSERT_EQ(judge(200, PROTOBUF "; x=y", none, sizeof(none) - 1, &rejected, text), ANSWER_DONE);
        ASSERT_STREQ(text, "taken, with a warning: mind");
        ASSERT_EQ(rejected, 0);
        ASSERT_EQ(judge(200, PROTOBUF, negative, sizeof(negative) - 1, &rejected, text), ANSWER_DONE);
        ASSERT_EQ(judge(200, PROTOBUF, "\x0a\x7f", 2, &rejected, text), ANSWER_PARKED);
        ASSERT_EQ(judge(200, "text/html", "<html>", 6, &rejected, text), ANSWER_PARKED);
        ASSERT_EQ(judge(200, NULL, "ok", 2, &rejected, text), ANSWER_PARKED);
        ASSERT_EQ(judge(200, "application/json", "{}", 2, &rejected, text), ANSWER_DONE);
        ASSERT_EQ(judge(200, NULL, "", 0, &rejected, text), ANSWER_DONE);
}

static void test_error_text(void) {
        static const char status[] = "\x08\x03\x12\x05wrong"; /* google.rpc.Status { 1: 3, 2: "wrong" } */
        char text[ANSWER_TEXT_MAX], longer[3 + 120];
        uint64_t rejected;

        ASSERT_EQ(judge(400, PROTOBUF, status, sizeof(status) - 1, &rejected, text), ANSWER_REFUSED);
        ASSERT_STREQ(text, "HTTP 400: wrong");
        memcpy(longer, "\x12\x78", 2);
        memset(longer + 2, 'x', 120);
        ASSERT_EQ(judge(503, PROTOBUF, longer, 122, &rejected, text), ANSWER_RETRY);
        ASSERT_EQ(strlen(text), ANSWER_TEXT_MAX - 1);
        ASSERT_EQ(judge(503, PROTOBUF, "\xff\xff\xff", 3, &rejected, text), ANSWER_RETRY);
        ASSERT_STREQ(text, "HTTP 503");
}

TEST_MAIN(test_status, test_partial_success, test_error_text)
