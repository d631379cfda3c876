/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis_print.h"
#include "tree.h"

static void put_clean(FILE *f, const char *s) {
        for (; *s; s++)
                fputc(*s == ';' || *s == '\n' ? ':' : *s, f);
}

static char *fold_stack(const struct tree *t, uint32_t i) {
        const struct stack_table *table = &t->evidence->scene->table;
        const uint32_t *frames = stack_table_frames(table, t->stacks[i]);
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return NULL;
        for (uint32_t k = 0; k < table->stacks[t->stacks[i]].n; k++) {
                const struct stack_frame *frame = &table->frames[frames[k]];

                if (k > 0)
                        fputc(';', f);
                put_clean(f, stack_table_text(table, frame->function));
                if (frame->kind == FRAME_PYTHON) {
                        fputs(" (", f);
                        put_clean(f, base_name(stack_table_text(table, frame->file)));
                        fprintf(f, ":%" PRIu32 ")", frame->line);
                } else
                        fputs(frame->kind == FRAME_KERNEL ? "_[k]" : "_[n]", f);
        }
        fprintf(f, " %" PRIu32, t->offsets[i + 1] - t->offsets[i]);
        if (fclose(f) == EOF) {
                free(text);
                return NULL;
        }
        return text;
}

static int compare_lines(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

int diagnosis_print_folded(FILE *f, const struct diagnosis *d, bool all) {
        _cleanup_tree_ struct tree tree = TREE_NULL;
        _cleanup_free_ char **lines = NULL;
        size_t n = 0;
        int r = tree_build(&tree, &d->evidence, all);

        if (r == 0 && !(lines = calloc(tree.n_stacks + 1, sizeof(*lines))))
                r = -ENOMEM;
        for (size_t i = 0; i < tree.n_stacks && r == 0; i++)
                if (!(lines[n++] = fold_stack(&tree, (uint32_t) i)))
                        r = -ENOMEM;
        if (r == 0)
                qsort(lines, n, sizeof(*lines), compare_lines);
        for (size_t i = 0; i < n; i++) {
                if (r == 0 && lines[i][0] != ' ') /* a thread without a frame has no place in a graph */
                        fprintf(f, "%s\n", lines[i]);
                free(lines[i]);
        }
        if (r == 0 && (fflush(f) == EOF || ferror(f)))
                return -EIO;
        return r;
}
