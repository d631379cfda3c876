/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A test is a function; ASSERT_* ends the program with file, line and both values. Register with
 * TEST_MAIN(a, b, c). Randomised tests take their seed from TEST_SEED (or the time) and print it.
 */
#undef NDEBUG
#include <math.h>
#include <stdarg.h>
#include <time.h>

#include "base.h"

__attribute__((noreturn, format(printf, 3, 4))) static inline void test_fail(const char *file, int line,
                                                                             const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        fprintf(stderr, "%s:%d: ", file, line);
        vfprintf(stderr, fmt, ap);
        fputc('\n', stderr);
        va_end(ap);
        exit(1);
}

#define ASSERT_TRUE(e) ((e) ? (void) 0 : test_fail(__FILE__, __LINE__, "not true: %s", #e))
#define ASSERT_FALSE(e) (!(e) ? (void) 0 : test_fail(__FILE__, __LINE__, "not false: %s", #e))
#define ASSERT_EQ(a, b)                                                                                     \
        do {                                                                                                \
                long long _a = (long long) (a), _b = (long long) (b);                                       \
                if (_a != _b)                                                                               \
                        test_fail(__FILE__, __LINE__, "%s is %lld, not %lld (%s)", #a, _a, _b, #b);         \
        } while (0)
#define ASSERT_OK(e) ASSERT_EQ((e), 0)
#define ASSERT_STREQ(a, b)                                                                                  \
        do {                                                                                                \
                const char *_sa = (a), *_sb = (b);                                                          \
                if (!_sa || !_sb || strcmp(_sa, _sb) != 0)                                                  \
                        test_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"",                           \
                                  #a, _sa ? _sa : "(null)", _sb ? _sb : "(null)");                          \
        } while (0)

/* The seed of a randomised test, printed so that a failure can be repeated with TEST_SEED=N. */
static inline unsigned test_seed(void) {
        const char *s = getenv("TEST_SEED");
        unsigned seed = s ? (unsigned) strtoul(s, NULL, 10) : (unsigned) time(NULL);

        fprintf(stderr, "TEST_SEED=%u\n", seed);
        return seed;
}

#define TEST_MAIN(...)                                                              \
        int main(void) {                                                            \
                void (*const tests[])(void) = { __VA_ARGS__ };                      \
                for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)       \
                        tests[i]();                                                 \
                printf("%zu tests passed\n", sizeof(tests) / sizeof(tests[0]));     \
                return 0;                                                           \
        }
