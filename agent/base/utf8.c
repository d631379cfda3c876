/* SPDX-License-Identifier: Apache-2.0 */
#include "utf8.h"

/* Length of the valid sequence at s, 0 when there is none. */
static size_t sequence(const unsigned char *s, size_t len) {
        static const struct {
                unsigned char mask, lead;
                uint32_t least;
        } forms[] = { { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 } };

        if (s[0] < 0x80)
                return s[0] < 0x20 && s[0] != '\t' && s[0] != '\n' ? 0 : s[0] != 0x7f;
        for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
                size_t need = i + 2;
                uint32_t code;

                if ((s[0] & forms[i].mask) != forms[i].lead)
                        continue;
                if (need > len)
                        return 0;
                code = s[0] & (unsigned char) ~forms[i].mask;
                for (size_t k = 1; k < need; k++) {
                        if ((s[k] & 0xc0) != 0x80)
                                return 0;
                        code = code << 6 | (s[k] & 0x3f);
                }
                if (code < MAX(forms[i].least, (uint32_t) 0xa0) || code > 0x10ffff ||
                    (code >= 0xd800 && code <= 0xdfff))
                        return 0;
                return need;
        }
        return 0;
}

size_t utf8_scrub(char *s, size_t len) {
        size_t replaced = 0;

        for (size_t i = 0; i < len;) {
                size_t n = sequence((const unsigned char *) s + i, len - i);

                if (n == 0) {
                        s[i] = '?';
                        replaced++;
                        n = 1;
                }
                i += n;
        }
        return replaced;
}

void utf8_copy(char *dst, size_t size, const char *src) {
        size_t len = src ? strnlen(src, size - 1) : 0;

        if (len > 0)
                memcpy(dst, src, len);
        dst[len] = 0;
        (void) utf8_scrub(dst, len); /* a sequence that the cut tore is replaced, too */
}

size_t utf8_width(const char *s) {
        size_t n = 0;

        for (; *s; s++)
                n += ((unsigned char) *s & 0xc0) != 0x80;
        return n;
}
