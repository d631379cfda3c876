/* SPDX-License-Identifier: Apache-2.0 */
/* The query arguments of a call, by name and as numbers. */
#include "arguments.h"
#include "test.h"

static void test_names(void) {
        struct arguments a = { .allowed = { "since", "wait" } };

        ASSERT_OK(arguments_take(&a, "wait"));
        ASSERT_OK(arguments_take(&a, "since"));
        ASSERT_EQ(a.seen, 3);
        ASSERT_EQ(arguments_take(&a, "since"), -EINVAL);
        ASSERT_STREQ(a.why, "since= is given twice");
        ASSERT_EQ(arguments_take(&a, "Since"), -EINVAL);
        ASSERT_STREQ(a.why, "Since= is not known; this call takes since=, wait=");
        ASSERT_EQ(arguments_take(&a, ""), -EINVAL);
        ASSERT_STREQ(a.why, "= is not known; this call takes since=, wait=");
        ASSERT_EQ(arguments_take(&a, "\xff\n\x1b"), -EINVAL);
        ASSERT_STREQ(a.why, "?\n?= is not known; this call takes since=, wait=");
}

static void test_bounds(void) {
        struct arguments a = { .allowed = { "check", "subject", "reason", "until" } }, none = { 0 };
        char longer[4000];

        memset(longer, 'k', sizeof(longer) - 1);
        longer[sizeof(longer) - 1] = 0;
        ASSERT_EQ(arguments_take(&a, longer), -EINVAL);
        ASSERT_TRUE(strlen(a.why) < sizeof(a.why));
        ASSERT_TRUE(strstr(a.why, "this call takes check=, subject=, reason=, until="));
        ASSERT_EQ(arguments_take(&none, "x"), -EINVAL);
        ASSERT_STREQ(none.why, "x= is not known; this call takes none");
}

static void test_numbers(void) {
        uint64_t n = 7;

        ASSERT_OK(argument_number("0", 0, &n));
        ASSERT_EQ(n, 0);
        ASSERT_OK(argument_number("30", 30, &n));
        ASSERT_EQ(n, 30);
        ASSERT_OK(argument_number("0000000000000000000000030", 30, &n));
        ASSERT_EQ(n, 30);
        ASSERT_OK(argument_number("18446744073709551615", UINT64_MAX, &n));
        ASSERT_TRUE(n == UINT64_MAX);
        n = 7;
        for (size_t i = 0; i < 12; i++)
                ASSERT_EQ(argument_number((const char *const[]) { "", "31", "-1", "+1", " 1", "1 ", "1x", "300", "x",
                                                                  "18446744073709551616", "9999999999999999999999",
                                                                  "0x10" }[i],
                                          30, &n),
                          -EINVAL);
        ASSERT_EQ(argument_number("18446744073709551616", UINT64_MAX, &n), -EINVAL);
        ASSERT_EQ(argument_number("5", 4, &n), -EINVAL);
        ASSERT_EQ(n, 7);
}

TEST_MAIN(test_names, test_bounds, test_numbers)
