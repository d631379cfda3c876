/* SPDX-License-Identifier: Apache-2.0 */
#include <nmmintrin.h>

#include "crc32c.h"

/* One bit a step: for processors before 2008, and to compare with. */
uint32_t crc32c_bitwise(uint32_t crc, const void *data, size_t len) {
        const uint8_t *p = data;

        crc = ~crc;
        for (size_t i = 0; i < len; i++) {
                crc ^= p[i];
                for (unsigned bit = 0; bit < 8; bit++)
                        crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0); /* the polynomial, reflected */
        }
        return ~crc;
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *data, size_t len) {
        const uint8_t *p = data;
        uint64_t c = ~crc;

        for (; len >= sizeof(uint64_t); p += sizeof(uint64_t), len -= sizeof(uint64_t)) {
                uint64_t word;

                memcpy(&word, p, sizeof(word));
                c = _mm_crc32_u64(c, word);
        }
        crc = (uint32_t) c;
        for (; len > 0; p++, len--)
                crc = _mm_crc32_u8(crc, *p);
        return ~crc;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len) {
        if (__builtin_cpu_supports("sse4.2"))
                return crc32c_sse42(crc, data, len);
        return crc32c_bitwise(crc, data, len);
}
