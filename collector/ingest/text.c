/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

static bool is_utf8(const char *s, size_t len) {
        json_t *j = json_stringn(s, len); /* jansson takes UTF-8 only */
        bool yes = j;

        json_decref(j);
        return yes;
}

static void ascii_only(char *s) {
        for (; *s; s++)
                if ((unsigned char) *s >= 0x80)
                        *s = '?';
}

void text_name(char *buf, size_t size, const char *s) {
        size_t len = s ? strlen(s) : 0;

        if (len >= size) {
                len = size - 1;
                while (len > 0 && ((unsigned char) s[len] & 0xc0) ==
                                          0x80) /* s[len] goes on with a character: cut before it */
                        len--;
        }
        if (len > 0)
                memcpy(buf, s, len);
        buf[len] = '\0';
        if (!is_utf8(buf, len))
                ascii_only(buf);
        for (char *p = buf; *p; p++)
                if ((unsigned char) *p < 0x20 || *p == 0x7f)
                        *p = '?';
}

json_t *text_json(const char *s) {
        json_t *j = json_string(s);
        _cleanup_free_ char *copy = NULL;

        if (j)
                return j;
        copy = strdup(s);
        if (!copy)
                return NULL;
        ascii_only(copy);
        return json_string(copy);
}
