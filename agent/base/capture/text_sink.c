/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdarg.h>

#include "text_sink.h"

int sink_flush(struct text_sink *s) {
        return fflush(s->file) != 0 || ferror(s->file) ? -EIO : 0;
}

static void put_digits(struct text_sink *s, uint64_t n, unsigned base, bool negative) {
        char buf[24], *at = buf + sizeof(buf);

        do
                *--at = "0123456789abcdef"[n % base];
        while ((n /= base));
        if (negative)
                *--at = '-';
        sink_put(s, at, (size_t) (buf + sizeof(buf) - at));
}

void sink_number(struct text_sink *s, int64_t n) {
        put_digits(s, n < 0 ? -(uint64_t) n : (uint64_t) n, 10, n < 0);
}

void sink_hex(struct text_sink *s, uint64_t n) {
        put_digits(s, n, 16, false);
}

static void put_escape(struct text_sink *s, char c) {
        static const char letters[] = "\bb\ff\nn\rr\tt\"\"\\\\"; /* what is escaped, and as which letter */

        for (const char *l = letters; *l; l += 2)
                if (*l == c) {
                        sink_put(s, (char[]){ '\\', l[1] }, 2);
                        return;
                }
        sink_text(s, "\\u00");
        sink_put(s, (char[]){ "0123456789ABCDEF"[(uint8_t) c >> 4], "0123456789ABCDEF"[c & 15] }, 2);
}

void sink_json(struct text_sink *s, const char *text, size_t len) {
        const char *end = text + len, *from = text;

        sink_put(s, "\"", 1);
        for (; text < end; text++)
                if ((uint8_t) *text < 0x20 || *text == '"' || *text == '\\') {
                        sink_put(s, from, (size_t) (text - from));
                        put_escape(s, *text);
                        from = text + 1;
                }
        sink_put(s, from, (size_t) (end - from));
        sink_put(s, "\"", 1);
}

/* Bytes of the control character at s (C0, DEL, C1 in UTF-8), 0 when it is none. */
static size_t control_bytes(const char *s) {
        uint8_t first = (uint8_t) s[0];

        if (first < 0x20 || first == 0x7F)
                return 1;
        return first == 0xC2 && (uint8_t) s[1] < 0xA0 ? 2 : 0;
}

/* What changes the direction of the text behind it, or ends a line (Unicode, Bidi_Control and separators):
 * its code point, 0 when it is none. UTF-8. */
static unsigned direction_code(const char *s) {
        const uint8_t *u = (const uint8_t *) s;
        unsigned code;

        if (u[0] == 0xD8 && u[1] == 0x9C)
                return 0x061C;
        if (u[0] != 0xE2 || (u[1] != 0x80 && u[1] != 0x81) || u[2] == 0)
                return 0;
        code = 0x2000u | (u[1] & 1u) << 6 | (u[2] & 0x3Fu);
        return code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
                               (code >= 0x2066 && code <= 0x2069)
                       ? code
                       : 0;
}

void sink_shown(struct text_sink *s, const char *text) {
        while (*text) {
                size_t n = 0, control;
                unsigned code = 0;

                while ((control = control_bytes(text + n)) == 0 && (code = direction_code(text + n)) == 0)
                        n++;
                sink_put(s, text, n);
                text += n;
                if (!*text)
                        return;
                if (code) {
                        sink_text(s, code < 0x1000 ? "\\u0" : "\\u");
                        sink_hex(s, code);
                        text += code < 0x1000 ? 2 : 3;
                        continue;
                }
                sink_text(s, "\\x");
                sink_put(s, (char[]){ "0123456789abcdef"[(uint8_t) text[control - 1] >> 4 & 15],
                                      "0123456789abcdef"[text[control - 1] & 15] },
                         2);
                text += control;
        }
}

void sink_format(struct text_sink *s, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        for (const char *at; *(at = strchrnul(format, '%')); format = at) {
                sink_put(s, format, (size_t) (at - format));
                if (at[1] == 's')
                        sink_shown(s, va_arg(ap, const char *));
                else if (at[1] == 'd')
                        sink_number(s, va_arg(ap, int));
                else if (startswith(at, "%ld"))
                        sink_number(s, va_arg(ap, long));
                else {
                        assert(startswith(at, "%lx"));
                        sink_hex(s, va_arg(ap, unsigned long));
                }
                at += at[1] == 'l' ? 3 : 2;
        }
        va_end(ap);
        sink_text(s, format);
}
