/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file with stacks, of anybody. First byte: in what pieces it is read. Every snapshot is bounded,
 * printable and made of lines that stood in the file; the reader always comes to the end.
 */
#include <assert.h>

#include "host_stat.h"
#include "stack_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct stack_text *t) {
        assert(t->len < sizeof(t->text) && strlen(t->text) == t->len &&
               strlen(t->reason) < sizeof(t->reason));
        assert(t->len == 0 || t->text[t->len - 1] == '\n');
        assert((unsigned) t->kind < _STACK_TEXT_KIND_MAX);
        assert(t->frames > 0 || t->kind == STACK_TEXT_CRASH);
        for (const char *c = t->text; *c; c++)
                assert((unsigned char) *c >= ' ' || *c == '\n' || *c == '\t');
}

static void mounts(const uint8_t *data, size_t size) {
        struct mount_entry m;
        char line[300];
        size_t n = MIN(size, sizeof(line) - 1);

        memcpy(line, data, n);
        line[n] = '\0';
        if (mountinfo_parse(line, &m))
                assert(m.point[0] == '/' && m.type[0] && strlen(m.source) < sizeof(m.source));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct stack_text t;
        const char *text = (const char *) data + 1;
        size_t at = 0, piece;

        if (size < 1)
                return 0;
        piece = (size_t) data[0] * 7 + 1;
        size--;
        for (size_t len = MIN(piece, size); at < size; len = MIN(len + piece, size)) {
                size_t before = at;

                while (stack_text_next(text, len, len == size, &at, &t) > 0) {
                        check(&t);
                        assert(at > before || t.len > 0);
                }
                assert(at >= before && at <= len);
                if (len == size)
                        break;
        }
        assert(at == size);
        mounts(data, size);
        return 0;
}
