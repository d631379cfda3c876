/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What endpoints answer, and the times that are read out of records. First byte: which. Nothing crashes,
 * what a person reads is printable, a record is given up for a refusal only.
 */
#include <assert.h>

#include "otlp_answer.h"
#include "otlp_look.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_printable(const char *text, size_t max) {
        assert(strlen(text) < max);
        for (; *text; text++)
                assert(*text >= ' ' && *text <= '~');
}

static void answer(const uint8_t *data, size_t size) {
        static const char *const types[] = { NULL, "application/x-protobuf", "application/json", "text/html",
                                             "application/x-protobuf; a=b" };
        static const long statuses[] = { 200, 400, 401, 413, 422, 429, 503, 301 };
        char text[ANSWER_TEXT_MAX];
        uint64_t rejected = 1;
        enum answer a;

        if (size < 2)
                return;
        a = answer_judge(statuses[data[0] % ELEMENTSOF(statuses)], types[data[1] % ELEMENTSOF(types)],
                         data + 2, size - 2, &rejected, text);
        expect_printable(text, sizeof(text));
        assert((rejected > 0) == (a == ANSWER_PARTIAL));
        if (a == ANSWER_REFUSED)
                assert(data[0] % ELEMENTSOF(statuses) == 1 || data[0] % ELEMENTSOF(statuses) == 3 ||
                       data[0] % ELEMENTSOF(statuses) == 4);
        if (a == ANSWER_DONE || a == ANSWER_PARTIAL)
                assert(data[0] % ELEMENTSOF(statuses) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (size < 1)
                return 0;
        if (data[0] % 2 == 0)
                answer(data + 1, size - 1);
        else {
                (void) otlp_first_log_time(data + 1, size - 1);
                (void) otlp_first_point_time(data + 1, size - 1);
        }
        return 0;
}
