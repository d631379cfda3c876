/* SPDX-License-Identifier: Apache-2.0 */
/* The word for how a run ended: one that was ended from outside has not succeeded, whatever systemd calls it. */
#include "exit_record.h"
#include "test.h"

static void test_cause(void) {
        static const struct {
                struct exit_record record;
                const char *cause;
        } cases[] = {
                { { .result = "success", .code = "exited", .status = "0" }, "success" },
                { { .result = "success", .code = "killed", .status = "TERM" }, "stopped" },
                { { .result = "signal", .code = "killed", .status = "KILL" }, "signal" },
                { { .result = "exit-code", .code = "exited", .status = "3" }, "exit-code" },
                { { .result = "unknown" }, "unknown" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                ASSERT_STREQ(exit_record_cause(&cases[i].record), cases[i].cause);
}

TEST_MAIN(test_cause)
