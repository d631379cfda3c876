/* SPDX-License-Identifier: Apache-2.0 */
#include "hex.h"

static const char digits[] = "0123456789abcdef";

char *hex_encode(const void *data, size_t len) {
        const uint8_t *from = data;
        char *text = malloc(2 * len + 1);

        if (!text)
                return NULL;
        for (size_t i = 0; i < len; i++) {
                text[2 * i] = digits[from[i] >> 4];
                text[2 * i + 1] = digits[from[i] & 15];
        }
        text[2 * len] = '\0';
        return text;
}

static int digit_value(char c) {
        const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;

        return at ? (int) (at - digits) : -1;
}

int hex_decode(const char *text, uint8_t **ret, size_t *ret_len) {
        size_t n = strlen(text) / 2;
        _cleanup_free_ uint8_t *data = malloc(n + 1);

        if (!data)
                return -ENOMEM;
        if (text[2 * n])
                return -EPROTO;
        for (size_t i = 0; i < n; i++) {
                int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);

                if (high < 0 || low < 0)
                        return -EPROTO;
                data[i] = (uint8_t) (high << 4 | low);
        }
        *ret = TAKE_PTR(data);
        *ret_len = n;
        return 0;
}
