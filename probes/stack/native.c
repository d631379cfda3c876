/* SPDX-License-Identifier: Apache-2.0 */
#include "native.h"

#include "core_file.h"
#include "text.h"
#include "utf8.h"
#include "wait_call.h"

#define RED_ZONE UINT64_C(128) /* below the stack pointer */

void native_clear(struct native *n) {
        for (size_t i = 0; i < n->n; i++) {
                free(n->threads[i].frames);
                free(n->threads[i].kernel);
        }
        free(n->threads);
        (void) unwinder_free(n->unwinder);
        *n = (struct native) { 0 };
}

size_t native_evaluations(const struct native_thread *t) {
        size_t n = 0;

        for (size_t i = 0; i < t->n; i++)
                n += t->frames[i].symbol->evaluates;
        return n;
}

/* Lines like "[<0>] do_futex+0x1a/0x20": the address is taken off. */
static int read_kernel_stack(const struct process *p, struct native *n, struct native_thread *t) {
        char path[64], text[NATIVE_KERNEL_MAX], *to = text;

        (void) snprintf(path, sizeof(path), "task/%d/stack", (int) t->tid);
        if (process_read(p, path, text, sizeof(text), NULL) < 0)
                return 0; /* not permitted, most often */
        n->kernel_by_proc = true;
        for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
                char *name = strchr(line, ']');

                if (!name || name > end || name[1] != ' ')
                        continue;
                memmove(to, name + 2, (size_t) (end - name - 1));
                to += end - name - 1;
        }
        *to = '\0';
        utf8_mend(text);
        t->kernel = text[0] ? strdup(text) : NULL;
        return text[0] && !t->kernel ? -ENOMEM : 0;
}

struct batch {
        struct seized seized[NATIVE_BATCH];
        size_t n;
};

static void batch_clear(struct batch *b) {
        for (size_t i = 0; i < b->n; i++)
                seized_clear(&b->seized[i]);
        b->n = 0;
}

static int read_syscall(const struct process *p, pid_t tid, char *buf, size_t size) {
        char path[64];

        (void) snprintf(path, sizeof(path), "task/%d/syscall", (int) tid);
        return process_read(p, path, buf, size, NULL);
}

/* A thread that waits, as it waits. -EAGAIN: it did something meanwhile. */
static int copy_waiting(const struct process *p, const struct task *task, const struct task_stack *k,
                        struct seized *ret) {
        const struct user_regs_struct *known = k && k->has_registers ? &k->registers : NULL;
        char before[256], after[256];
        int r = task->state == 'S' || known ? read_syscall(p, task->tid, before, sizeof(before)) : -EINVAL;

        if (r == 0)
                r = seize_waiting(p->pid, task->tid, before, known, ret);
        if (r == 0 && (read_syscall(p, task->tid, after, sizeof(after)) < 0 || !streq(before, after))) {
                seized_clear(ret);
                r = -EAGAIN;
        }
        return r;
}

/* Stopped as it comes back from a call, a thread has its number and its arguments yet: on x86-64 a call
 * keeps their registers. orig_rax is negative where it was in none. */
static struct task_call call_looked(const struct user_regs_struct *r) {
        struct task_call c = { .number = (long) r->orig_rax,
                               .arguments = { r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9 } };

        if (c.number < 0 || !call_found_nothing(&c, (int64_t) r->rax))
                c.number = CALL_RUNNING;
        return c;
}

static int seize_one(const struct process *p, struct native *n, const struct task *task,
                     struct native_thread *t, struct seized *s) {
        int r = n->held || task->state == 'D' ? -EBUSY : strchr("ZX", task->state) ? -ESRCH : 0;

        if (r == 0) {
                r = seize_thread(p->pid, t->tid, process_task_cpu(p, t->tid), s);
                n->held = r == -EBUSY;
        }
        if (r == 0)
                t->looked = call_looked(&s->registers);
        t->pause_ns += s->pause_ns;
        return r;
}

static int take_kernel_stack(const struct process *p, const struct task_stack *k, struct native *n,
                             struct native_thread *t) {
        if (!k)
                return read_kernel_stack(p, n, t);
        t->kernel = k->kernel[0] ? strdup(k->kernel) : NULL;
        if (!t->kernel)
                return k->kernel[0] ? -ENOMEM : 0;
        utf8_mend(t->kernel);
        return 0;
}

/* The threads from `from` on. */
static int copy_batch(const struct process *p, const struct task *tasks,
                      const struct task_stack_list *kernel, struct native *to, size_t from,
                      struct batch *b) {
        for (size_t i = 0; i < b->n; i++) {
                struct native_thread *t = &to->threads[from + i];
                const struct task_stack *k;
                int r = 0;

                tasks += i == 0 ? from : 1;
                k = kernel ? task_stack_find(kernel, tasks->tid) : NULL;
                b->seized[i] = (struct seized) { 0 };
                t->tid = tasks->tid;
                t->looked.number = CALL_RUNNING;
                if (k || (!kernel && tasks->state != 'R'))
                        r = take_kernel_stack(p, k, to, t);
                if (r < 0)
                        return r;
                if (copy_waiting(p, tasks, k, &b->seized[i]) < 0)
                        t->error = seize_one(p, to, tasks, t, &b->seized[i]);
        }
        return 0;
}

static int unwind_one(struct unwinder *u, const struct task *task, const struct seized *s,
                      struct native_thread *t) {
        free(TAKE_PTR(t->frames));
        t->n = 0;
        return unwinder_frames(u, s, task->state != 'R', &t->frames, &t->n, &t->cut);
}

static int unwind_batch(const struct process *p, const struct task *tasks, struct native *to, size_t from,
                        struct batch *b) {
        struct unwinder *u = to->unwinder;

        tasks += from;
        for (size_t i = 0; i < b->n; i++) {
                struct native_thread *t = &to->threads[from + i];
                struct seized *s = &b->seized[i];
                int r = t->error ? t->error : unwind_one(u, &tasks[i], s, t);

                if (s->partial &&
                    (r == -EBADMSG || (r == 0 && t->cut))) { /* the other registers are needed */
                        seized_clear(s);
                        r = seize_one(p, to, &tasks[i], t, s);
                        if (r == 0)
                                r = unwind_one(u, &tasks[i], s, t);
                }
                if (r == -ENOMEM)
                        return r;
                t->error = t->n > 0 ? 0 : r;
        }
        return 0;
}

int native_capture(const struct process *p, struct memory *m, const struct task_list *tasks,
                   const struct task_stack_list *kernel, struct native *ret) {
        _cleanup_free_ struct batch *b = calloc(1, sizeof(*b));
        int r = 0;

        if (!b)
                return -ENOMEM;
        ret->threads = calloc(tasks->n + 1, sizeof(*ret->threads));
        if (!ret->threads)
                return -ENOMEM;
        for (size_t at = 0; r == 0 && at < tasks->n; at += NATIVE_BATCH) {
                size_t n = MIN(tasks->n - at, (size_t) NATIVE_BATCH);

                ret->n = at + n;
                b->n = n;
                r = copy_batch(p, tasks->items, kernel, ret, at, b);
                memory_forget(m);
                if (r == 0 && !ret->unwinder)
                        r = unwinder_new(p, m, &ret->unwinder);
                if (r == 0)
                        r = unwind_batch(p, tasks->items, ret, at, b);
                batch_clear(b);
        }
        return r == 0 && ret->unwinder ? unwinder_name(ret->unwinder) : r;
}

static const struct core_thread *find_thread(const struct process *p, pid_t tid) {
        size_t n;
        const struct core_thread *all = core_file_threads(p->core, &n);

        for (size_t i = 0; i < n; i++)
                if (all[i].tid == tid)
                        return &all[i];
        return NULL;
}

int native_capture_core(const struct process *p, struct memory *m, const struct task_list *tasks,
                        struct native *ret) {
        int r;

        ret->threads = calloc(tasks->n + 1, sizeof(*ret->threads));
        if (!ret->threads)
                return -ENOMEM;
        ret->n = tasks->n;
        r = unwinder_new(p, m, &ret->unwinder);
        for (size_t i = 0; r == 0 && i < tasks->n; i++) {
                const struct core_thread *from = find_thread(p, tasks->items[i].tid);
                struct seized s = { .tid = tasks->items[i].tid, .registers = from->registers };
                struct native_thread *t = &ret->threads[i];

                s.stack_at = s.registers.rsp - MIN((uint64_t) s.registers.rsp, RED_ZONE);
                t->tid = s.tid;
                t->looked.number = CALL_RUNNING;
                r = unwinder_frames(ret->unwinder, &s, true, &t->frames, &t->n, &t->cut);
                t->error = t->n > 0 ? 0 : r;
                r = r == -ENOMEM ? r : 0;
        }
        return r == 0 ? unwinder_name(ret->unwinder) : r;
}
