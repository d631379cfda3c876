/* SPDX-License-Identifier: Apache-2.0 */
#include "interpreter_frames.h"

static bool is_interpreter(const struct stack_table *t, const struct stack_frame *f) {
        const char *module = stack_table_text(t, f->file);

        return f->kind == FRAME_NATIVE && (startswith(module, "python3") || startswith(module, "libpython3"));
}

size_t interpreter_frames_drop(const struct stack_table *t, uint32_t *frames, size_t n) {
        size_t first = n, last = 0, kept = 0;
        bool placed, inside = false;

        for (size_t i = 0; i < n; i++)
                if (t->frames[frames[i]].kind == FRAME_PYTHON) {
                        first = MIN(first, i);
                        last = i;
                }
        if (first == n)
                return n;
        placed = last + 1 < n;
        for (size_t i = 0; i < n; i++) {
                bool own = is_interpreter(t, &t->frames[frames[i]]);

                inside = i < first && (inside || (own && !placed));
                if (!own && !inside)
                        frames[kept++] = frames[i];
        }
        return kept;
}
