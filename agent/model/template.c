/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "template.h"
#include "utf8.h"

struct filling {
        char *buf;
        size_t size, n;
        template_field field;
        const void *of;
};

static void put_bytes(struct filling *f, const char *text, size_t len) {
        for (size_t i = 0; i < len; i++) {
                if (text[i] == '\n' && f->n + 1 < f->size)
                        f->buf[f->n++] = ';';
                if (f->n + 1 < f->size)
                        f->buf[f->n++] = text[i] == '\n' || text[i] == '\t' ? ' ' : text[i];
        }
}

/* Up to one of ends, or to the end of the text. False: a field had no text. */
static bool put_part(struct filling *f, const char **at, const char *ends) {
        char number[TEMPLATE_NUMBER_MAX];
        const char *p = *at, *text;
        bool whole = true;

        while (*p && !strchr(ends, *p)) {
                size_t len = *p == ']' ? 1 : strcspn(p, "{[]");

                if (len > 0) {
                        put_bytes(f, p, len);
                        p += len;
                        continue;
                }
                assert(*p == '{');
                len = strcspn(++p, "}");
                text = f->field(p, len, number, f->of);
                assert(text && p[len] == '}');
                put_bytes(f, text, strlen(text));
                whole = whole && *text;
                p += len + 1;
        }
        *at = p;
        return whole;
}

char *template_fill(char *buf, size_t size, const char *template, template_field field, const void *of) {
        struct filling f = { .buf = buf, .size = size, .field = field, .of = of };

        assert(size > 0);
        while (*template) {
                size_t before = f.n, len = strcspn(template, "]");

                if (*template != '[')
                        (void) put_part(&f, &template, "[");
                else if (!memchr(template, '{', len)) { /* a bracket of the text's own */
                        put_bytes(&f, template, len);
                        template += len;
                } else {
                        template += 1;
                        if (!put_part(&f, &template, "]"))
                                f.n = before;
                        assert(*template == ']');
                        template += 1;
                }
        }
        buf[f.n] = '\0';
        (void) utf8_scrub(buf, f.n);
        return buf;
}
