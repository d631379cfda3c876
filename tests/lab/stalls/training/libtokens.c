/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of every stride-th character of a text. */
#include <stddef.h>
#include <stdint.h>

uint64_t tokens_scan(const char *text, size_t n, size_t stride);

uint64_t tokens_scan(const char *text, size_t n, size_t stride) {
        volatile uint64_t sum = 0;

        for (size_t i = 0; i < n; i += stride)
                sum += (unsigned char) text[i];
        return sum;
}
