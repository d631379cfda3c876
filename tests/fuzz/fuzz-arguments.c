/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Query arguments as they may come, names and values parted by bytes of zero: what is refused is named in
 * valid UTF-8, what is taken is one of the allowed, once, and a number is one that another parser reads alike.
 */
#include <assert.h>

#include "arguments.h"
#include "utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_number(const char *text) {
        uint64_t n = 0;

        if (argument_number(text, INT64_MAX, &n) < 0)
                return;
        assert(n <= INT64_MAX && strspn(text, "0123456789") == strlen(text));
        errno = 0;
        assert(strtoull(text, NULL, 10) == n && errno == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct arguments a = { .allowed = { "check", "subject", "reason", "until" } };
        _cleanup_free_ char *text = malloc(size + 1);
        unsigned taken = 0;

        if (!text)
                return 0;
        if (size > 0)
                memcpy(text, data, size);
        text[size] = 0;
        for (const char *p = text; p <= text + size; p += strlen(p) + 1) {
                check_number(p);
                if (arguments_take(&a, p) < 0) {
                        assert(a.why[0] && strlen(a.why) < sizeof(a.why));
                        assert(utf8_scrub(a.why, strlen(a.why)) == 0);
                } else
                        taken++;
                assert(taken == (unsigned) __builtin_popcount(a.seen) && a.seen < 1U << ARGUMENTS_MAX);
        }
        return 0;
}
