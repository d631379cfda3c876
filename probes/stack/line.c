/* SPDX-License-Identifier: Apache-2.0 */
#include "line.h"

#define ENTRY 0x80u /* set in the first byte of an entry and in no other */
#define MORE 0x40u  /* another 6 bits of a varint follow */

enum location_kind { /* _PyCodeLocationInfoKind; 0 to 9: short forms on the same line */
                     LOCATION_ONE_LINE0 = 10, /* 10, 11, 12: zero, one, two lines further */
                     LOCATION_ONE_LINE2 = 12,
                     LOCATION_NO_COLUMNS = 13,
                     LOCATION_LONG = 14,
                     LOCATION_NONE = 15,
};

/*
 * A signed varint: 6 bits a byte, least significant first, the sign in the lowest bit. False when malformed.
 */
static bool read_svarint(const uint8_t *p, const uint8_t *end, int64_t *ret) {
        uint64_t v = 0;

        for (unsigned shift = 0; p < end && shift <= 30; p++, shift += 6) {
                if (*p & ENTRY)
                        return false;
                v |= (uint64_t) (*p & 0x3F) << shift;
                if (!(*p & MORE)) {
                        *ret = v & 1 ? -(int64_t) (v >> 1) : (int64_t) (v >> 1);
                        return true;
                }
        }
        return false;
}

static bool line_delta(unsigned kind, const uint8_t *p, const uint8_t *end, int64_t *ret) {
        *ret = 0;
        if (kind == LOCATION_NO_COLUMNS || kind == LOCATION_LONG)
                return read_svarint(p, end, ret);
        if (kind >= LOCATION_ONE_LINE0 && kind <= LOCATION_ONE_LINE2)
                *ret = kind - LOCATION_ONE_LINE0;
        return true;
}

int line_of_unit(const uint8_t *table, size_t len, int first_line, int64_t unit) {
        const uint8_t *p = table, *end = len > 0 ? table + len : table;
        int64_t line = first_line, at = 0;

        if (unit < 0)
                return MAX(first_line, 0);
        while (p < end) {
                unsigned kind = (*p >> 3) & 15u;
                int64_t units = (*p & 7) + 1, delta;

                if (!(*p & ENTRY) || !line_delta(kind, p + 1, end, &delta))
                        return 0;
                line += delta;
                if (line < 0 || line > INT32_MAX)
                        return 0;
                at += units;
                if (unit < at)
                        return kind == LOCATION_NONE ? 0 : (int) line;
                for (p++; p < end && !(*p & ENTRY);)
                        p++;
        }
        return 0;
}

int line_of_byte_lnotab(const uint8_t *table, size_t len, int first_line, int64_t byte) {
        int64_t line = first_line, at = 0;

        for (size_t i = 0; i + 1 < len; i += 2) {
                at += table[i];
                if (at > byte)
                        break;
                line += (int8_t) table[i + 1];
        }
        return line < 0 || line > INT32_MAX ? 0 : (int) line;
}

int line_of_byte_ranges(const uint8_t *table, size_t len, int first_line, int64_t byte) {
        int64_t line = first_line, at = 0;

        if (byte < 0)
                return MAX(first_line, 0);
        for (size_t i = 0; i + 1 < len; i += 2) {
                int step = (int8_t) table[i + 1];

                at += table[i];
                if (step != -128)
                        line += step;
                if (byte < at)
                        return step == -128 || line < 0 || line > INT32_MAX ? 0 : (int) line;
        }
        return 0;
}
