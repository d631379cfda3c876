/* SPDX-License-Identifier: Apache-2.0 */
#include "utf8.h"

/* Length of the valid sequence at s, 0 when there is none. least: what a character of several bytes is at
 * least; 0: a control character is one, too. */
static size_t sequence(const unsigned char *s, size_t len, uint32_t least) {
        static const struct {
                unsigned char mask, lead;
                uint32_t least;
        } forms[] = { { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 } };

        if (s[0] < 0x80)
                return least == 0 || (s[0] < 0x20 ? s[0] == '\t' || s[0] == '\n' : s[0] != 0x7f);
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
                if (code < MAX(forms[i].least, least) || code > 0x10ffff ||
                    (code >= 0xd800 && code <= 0xdfff))
                        return 0;
                return need;
        }
        return 0;
}

size_t utf8_character(const char *s) {
        return *s ? sequence((const unsigned char *) s, strnlen(s, 4), 0xa0) : 0;
}

static size_t replace(char *s, size_t len, uint32_t least) {
        size_t replaced = 0;

        for (size_t i = 0; i < len;) {
                size_t n = sequence((const unsigned char *) s + i, len - i, least);

                if (n == 0) {
                        s[i] = '?';
                        replaced++;
                        n = 1;
                }
                i += n;
        }
        return replaced;
}

size_t utf8_scrub(char *s, size_t len) {
        return replace(s, len, 0xa0);
}

void utf8_mend(char *s) {
        (void) replace(s, strlen(s), 0);
}

bool utf8_is_text(const char *s) {
        const unsigned char *p = (const unsigned char *) s, *end = p + strlen(s);

        while (p < end) {
                size_t n = sequence(p, (size_t) (end - p), 0x80);

                if (n == 0)
                        return false;
                p += n;
        }
        return true;
}

void utf8_copy(char *dst, size_t size, const char *src) {
        size_t len = src ? strnlen(src, size - 1) : 0;

        if (len > 0)
                memcpy(dst, src, len);
        dst[len] = 0;
        (void) utf8_scrub(dst, len); /* a sequence that the cut tore is replaced, too */
}

void utf8_copy_line(char *dst, size_t size, const char *src) {
        utf8_copy(dst, size, src);
        for (char *c = dst; *c; c++)
                if (*c == '\n' || *c == '\t')
                        *c = ' ';
}

size_t utf8_width(const char *s) {
        size_t n = 0;

        for (; *s; s++)
                n += ((unsigned char) *s & 0xc0) != 0x80;
        return n;
}
