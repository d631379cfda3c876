/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "json_number.h"

int json_number_double(const json_t *v, double *ret) {
        const char *text = json_string_value(v);
        char *end;
        double d;

        if (json_is_number(v)) {
                *ret = json_number_value(v);
                return 0;
        }
        if (!text || !*text)
                return -EINVAL;
        if (streq(text, "NaN"))
                d = (double) NAN;
        else if (streq(text, "Infinity") || streq(text, "-Infinity"))
                d = *text == '-' ? -HUGE_VAL : HUGE_VAL;
        else {
                if (text[strspn(text, "0123456789+-.eE")]) /* strtod() also knows "0x1p3" and "nan(…)" */
                        return -EINVAL;
                d = strtod(text, &end);
                if (*end || !isfinite(d))
                        return -EINVAL;
        }
        *ret = d;
        return 0;
}

static int integer_of_text(const char *text, bool is_unsigned, uint64_t *ret) {
        const char *digits = *text == '-' ? text + 1 : text;
        char *end;
        uint64_t u;

        if (*digits < '0' || *digits > '9' || (is_unsigned && digits > text))
                return -EINVAL;
        errno = 0;
        u = is_unsigned ? strtoull(text, &end, 10) : (uint64_t) strtoll(text, &end, 10);
        if (errno || *end)
                return -EINVAL;
        *ret = u;
        return 0;
}

int json_number_integer(const json_t *v, bool is_unsigned, uint64_t *ret) {
        const char *text = json_string_value(v);
        double d;

        if (text)
                return integer_of_text(text, is_unsigned, ret);
        if (json_is_integer(v)) {
                if (is_unsigned && json_integer_value(v) < 0)
                        return -EINVAL;
                *ret = (uint64_t) json_integer_value(v);
                return 0;
        }
        d = json_real_value(v); /* 1e3 is a whole number, too */
        if (!json_is_real(v) || d < (is_unsigned ? 0.0 : -9.2e18) || d > 9.2e18 || d > trunc(d) ||
            d < trunc(d))
                return -EINVAL;
        *ret = (uint64_t) (int64_t) d;
        return 0;
}

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

ssize_t json_hex(const char *text, size_t len, uint8_t *ret) {
        if (len % 2 != 0)
                return -EINVAL;
        for (size_t i = 0; i < len; i += 2) {
                int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);

                if (high < 0 || low < 0)
                        return -EINVAL;
                ret[i / 2] = (uint8_t) (high << 4 | low);
        }
        return (ssize_t) (len / 2);
}

static int base64_digit(char c) {
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        if (c == '+' || c == '-')
                return 62;
        return c == '/' || c == '_' ? 63 : -1;
}

ssize_t json_base64(const char *text, size_t len, uint8_t *ret) {
        uint32_t bits = 0;
        unsigned have = 0;
        size_t n = 0;

        for (size_t pad = 0; pad < 2 && len > 0 && text[len - 1] == '='; pad++)
                len--;
        if (len % 4 == 1)
                return -EINVAL;
        for (size_t i = 0; i < len; i++) {
                int d = base64_digit(text[i]);

                if (d < 0)
                        return -EINVAL;
                bits = (bits << 6 | (uint32_t) d) & 0xffffff;
                have += 6;
                if (have >= 8) {
                        have -= 8;
                        ret[n++] = (uint8_t) (bits >> have);
                }
        }
        return (ssize_t) n;
}
