/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_print.h"

#include <assert.h>

static const char cut_mark[] = "[cut here: the stacks are longer than this text may be]\n";

static void put_frame(FILE *f, const struct stack_table *t, const struct stack_frame *frame) {
        const char *file = stack_table_text(t, frame->file),
                   *function = stack_table_text(t, frame->function);

        if (frame->kind == FRAME_KERNEL)
                fprintf(f, "    %s [kernel]\n", function);
        else if (frame->kind == FRAME_NATIVE)
                fprintf(f, "    %s [%s]\n", function, file);
        else
                fprintf(f, "    %s (%s:%" PRIu32 ")\n", function, file, frame->line);
}

static void put_thread(FILE *f, const struct stack_table *t, const struct captured_thread *th) {
        const char *wait = stack_table_text(t, th->wait), *syscall = stack_table_text(t, th->syscall);
        const uint32_t *frames = th->stack == STACK_NONE ? NULL : stack_table_frames(t, th->stack);

        fprintf(f, "  thread %" PRIu32 " %s, %c%s%s%s%s%s%s\n", th->tid, stack_table_text(t, th->name),
                th->state ? th->state : '?', th->gil ? ", holds the GIL" : "", *syscall ? ", in " : "",
                syscall, *wait ? ", waits in " : "", wait, th->changed ? ", changed meanwhile" : "");
        for (uint32_t i = frames ? t->stacks[th->stack].n : 0; i > 0; i--)
                put_frame(f, t, &t->frames[frames[i - 1]]);
}

static void put_process(FILE *f, const struct host_capture *c, const struct stack_table *t,
                        const struct captured_process *p, size_t max) {
        const char *error = stack_table_text(t, p->error);

        fprintf(f, "process %" PRIu32 " %s", p->pid, stack_table_text(t, p->command));
        if (p->rank != CAPTURE_RANK_NONE)
                fprintf(f, ", rank %" PRIu32, p->rank);
        fprintf(f, "%s%s\n", *error ? ": " : "", error);
        for (uint32_t i = 0; i < p->n_threads && ftello(f) <= (off_t) max; i++)
                put_thread(f, t, &c->threads[p->first_thread + i]);
}

int capture_print(const struct host_capture *c, const struct stack_table *t, size_t max, char **ret) {
        char *text = NULL;
        size_t len = 0, end;
        FILE *f = open_memstream(&text, &len);

        assert(max > sizeof(cut_mark));
        if (!f)
                return -ENOMEM;
        for (size_t i = 0; i < c->n_processes && ftello(f) <= (off_t) max; i++)
                put_process(f, c, t, &c->processes[i], max);
        if (fclose(f) == EOF) {
                free(text);
                return -ENOMEM;
        }
        if (len >= max) { /* at the end of a line */
                for (end = max - sizeof(cut_mark); end > 0 && text[end - 1] != '\n';)
                        end--;
                memcpy(text + end, cut_mark, sizeof(cut_mark));
        }
        *ret = text;
        return 0;
}
