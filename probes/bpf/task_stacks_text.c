/* SPDX-License-Identifier: Apache-2.0 */
#include "task_stacks.h"

void task_stack_list_clear(struct task_stack_list *l) {
        free(l->items);
        free(l->text);
        *l = (struct task_stack_list) { 0 };
}

static int compare_tasks(const void *a, const void *b) {
        return COMPARE(((const struct task_stack *) a)->tid, ((const struct task_stack *) b)->tid);
}

const struct task_stack *task_stack_find(const struct task_stack_list *l, pid_t tid) {
        struct task_stack key = { .tid = tid };

        return l->n > 0 ? bsearch(&key, l->items, l->n, sizeof(*l->items), compare_tasks) : NULL;
}

/* n hexadecimal numbers, a blank before each. */
static int parse_numbers(const char *line, unsigned long long *const *numbers, size_t n) {
        char *end;

        for (size_t i = 0; i < n; i++, line = end) {
                *numbers[i] = strtoull(line, &end, 16);
                if (end == line)
                        return -EBADMSG;
        }
        return 0;
}

static int parse_registers(struct task_stack *t, const char *line) {
        struct user_regs_struct *r = &t->registers;
        unsigned long long *const saved[] = { &r->rsp, &r->rip, &r->rbx, &r->rbp,
                                              &r->r12, &r->r13, &r->r14, &r->r15 },
                                  *const others[] = { &r->rax, &r->rcx, &r->rdx, &r->rsi, &r->rdi,
                                                      &r->r8,  &r->r9,  &r->r10, &r->r11 };

        if (line[0] == 's')
                return parse_numbers(line + 1, others, ELEMENTSOF(others));
        t->has_registers = true;
        return parse_numbers(line + 1, saved, ELEMENTSOF(saved));
}

/* The lines "k …" from here on become the stack, without their letters, in place; returns what comes behind
 * them. */
static char *take_stack(struct task_stack *t, char *line, char *end) {
        char *to = line, *from = line;

        t->kernel = line;
        while (from < end && from[0] == 'k' && from[1] == ' ') {
                char *next = memchr(from, '\n', (size_t) (end - from));
                size_t n = (size_t) (next ? next + 1 - from : end - from);

                memmove(to, from + 2, n - 2);
                to += n - 2;
                from += n;
        }
        *to = '\0'; /* two bytes of each line are free, or from is end, where a NUL is */
        return from;
}

static size_t count_tasks(const char *text) {
        size_t n = 0;

        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                n += *line == 't';
        }
        return n;
}

static int parse_task(struct task_stack_list *l, char **at, char *end) {
        struct task_stack *t = &l->items[l->n];
        char *line = *at;
        long tid = strtol(line + 1, NULL, 10);
        int r = 0;

        if (line[0] != 't' || tid <= 0 || tid > INT32_MAX)
                return -EBADMSG;
        *t = (struct task_stack) { .tid = (pid_t) tid, .kernel = "" };
        line = memchr(line, '\n', (size_t) (end - line));
        line = line ? line + 1 : end;
        while (r == 0 && line < end && (line[0] == 'r' || line[0] == 's')) {
                r = parse_registers(t, line);
                line = memchr(line, '\n', (size_t) (end - line));
                line = line ? line + 1 : end;
        }
        if (line < end && line[0] == 'k')
                line = take_stack(t, line, end);
        l->n++;
        *at = line;
        return r;
}

int task_stacks_parse(char *text, size_t len, struct task_stack_list *ret) {
        struct task_stack_list l = { .text = text };
        char *at = text, *end = text + len;
        int r = 0;

        l.items = calloc(count_tasks(text) + 1, sizeof(*l.items));
        if (!l.items)
                r = -ENOMEM;
        while (r == 0 && at < end)
                r = parse_task(&l, &at, end);
        if (r < 0) {
                task_stack_list_clear(&l);
                return r;
        }
        qsort(l.items, l.n, sizeof(*l.items), compare_tasks);
        *ret = l;
        return 0;
}
