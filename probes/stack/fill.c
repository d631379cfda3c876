/* SPDX-License-Identifier: Apache-2.0 */
#include "fill.h"

#include <assert.h>

#include "utf8.h"

/* --- Kernel, native and Python frames as one stack -------------------------------------------------- */

/* The next run from *index on; then *index is behind it. NULL: there is none. */
static const struct python_frame *next_run(const struct python_thread *t, size_t *index) {
        while (*index < t->chain.n) {
                const struct python_frame *f = &t->chain.frames[(*index)++];

                if (f->entry)
                        return f;
        }
        return NULL;
}

static bool frame_holds_run(const struct native_thread *n, size_t i, const struct python_frame *run) {
        return run && i + 1 < n->n && n->frames[i].sp != 0 && run->entry_at >= n->frames[i].sp &&
               run->entry_at < n->frames[i + 1].sp;
}

/* Whether every run is in one of the frames, in their order. */
static bool all_have_places(const struct native_thread *n, const struct python_thread *t) {
        size_t index = 0;
        const struct python_frame *run = next_run(t, &index);

        for (size_t i = 0; i < n->n && run; i++)
                if (frame_holds_run(n, i, run))
                        run = next_run(t, &index);
        return !run;
}

/*
 * Whether each run of the interpreter loop in the native stack has its Python frames, of the same moment. A
 * run is known by what it has on the C stack, where the interpreter says that (from 3.12 on), else by the
 * name of its function.
 */
static bool stack_joins(const struct native_thread *n, const struct python_thread *t) {
        size_t runs = 0;

        for (size_t i = 0; i < t->chain.n; i++)
                runs += t->chain.frames[i].entry;
        return !t->error && !t->changed && !t->drifted && !t->chain.cut && runs > 0 &&
               (runs == native_evaluations(n) || all_have_places(n, t));
}

/* Why a thread has no native frames, in words. */
static const char *native_error(int error) {
        return error == -EBUSY   ? "it waits in the kernel, or gets no CPU, and did not stop in time"
               : error == -EPERM ? "not permitted, or another debugger has it"
               : error == -ESRCH ? "it has ended"
                                 : "no frame could be read";
}

/* Whether native frame i is the run whose Python frames begin at index. */
static bool is_run(const struct native_thread *n, size_t i, const struct python_thread *t, size_t index,
                   bool by_place) {
        if (!t)
                return false;
        return by_place ? frame_holds_run(n, i, next_run(t, &index)) : n->frames[i].symbol->evaluates;
}

/* --- What goes into the capture --------------------------------------------------------------------- */

static int fill_string(struct fill *f, const char *text, size_t len, uint32_t *ret) {
        return stack_table_string(f->t, text, MIN(len, (size_t) STACK_TEXT_MAX), ret);
}

static int fill_text(struct fill *f, const char *s, uint32_t *ret) {
        return fill_string(f, s, strlen(s), ret);
}

/* What may hold names of the target as they are, or be cut within a character. */
static int fill_words(struct fill *f, const char *s, uint32_t *ret) {
        char clean[PROCESS_COMMAND_MAX];

        (void) snprintf(clean, sizeof(clean), "%s", s);
        utf8_mend(clean);
        return fill_text(f, clean, ret);
}

static bool has_room(struct fill *f) {
        return !f->writer || capture_writer_has_room(f->writer);
}

static bool takes_thread(struct fill *f) {
        return has_room(f) && (!f->writer || capture_writer_takes_thread(f->writer));
}

/* --- Frames -------------------------------------------------------------------------------------------- */

/* Whether the stack has room for one more frame; else it is cut. */
static bool takes_frame(struct fill *f) {
        f->cut = f->cut || f->n == ELEMENTSOF(f->frames) || !has_room(f);
        return !f->cut;
}

/* After takes_frame(). */
static int add_frame(struct fill *f, const struct stack_frame *frame) {
        assert(f->n < ELEMENTSOF(f->frames));
        return stack_table_frame(f->t, frame, &f->frames[f->n++]);
}

/* A line of it: "pipe_read+0x366/0x410". */
static int fill_kernel_frame(struct fill *f, const char *line, size_t len) {
        const char *plus = memchr(line, '+', len);
        struct stack_frame frame = { .kind = FRAME_KERNEL,
                                     .line = plus ? (uint32_t) strtoul(plus + 1, NULL, 16) : 0 };
        int r = fill_string(f, line, plus ? (size_t) (plus - line) : len, &frame.function);

        return r < 0 ? r : add_frame(f, &frame);
}

static int fill_native_frame(struct fill *f, const struct native_frame *n) {
        const struct native_symbol *s = n->symbol;
        struct stack_frame frame = { .kind = FRAME_NATIVE,
                                     .line = (uint32_t) MIN(s->offset, (uint64_t) UINT32_MAX),
                                     .address = s->module ? n->pc - s->module->start : n->pc };
        int r = fill_text(f, s->name ? s->name : "", &frame.function);

        if (r == 0 && s->module)
                r = fill_text(f, s->module->name, &frame.file);
        return r < 0 ? r : add_frame(f, &frame);
}

static int fill_python_frame(struct fill *f, const struct python_thread *t, size_t i) {
        const struct python_frame *p = &t->chain.frames[i];
        struct stack_frame frame = { .kind = FRAME_PYTHON, .line = p->line > 0 ? (uint32_t) p->line : 0 };
        int r = fill_text(f, p->code ? p->code->file : "?", &frame.file);

        if (r == 0)
                r = fill_text(f, p->code ? p->code->function : "?", &frame.function);
        return r < 0 ? r : add_frame(f, &frame);
}

static int fill_kernel_stack(struct fill *f, const char *kernel) {
        int r = 0;

        for (const char *line = kernel, *end; r == 0 && line && (end = strchr(line, '\n')); line = end + 1) {
                if (!takes_frame(f))
                        return 0;
                r = fill_kernel_frame(f, line, (size_t) (end - line));
        }
        return r;
}

/* The Python frames of one run of the interpreter loop, from *index on; all of them when there is no native
 * stack. */
static int fill_run(struct fill *f, const struct python_thread *t, bool all, size_t *index) {
        int r = 0;

        while (r == 0 && *index < t->chain.n && !t->error) {
                size_t i = (*index)++;

                if (frame_is_shown(&t->chain.frames[i])) {
                        if (!takes_frame(f))
                                return 0;
                        r = fill_python_frame(f, t, i);
                }
                if (t->chain.frames[i].entry && !all)
                        break;
        }
        return r;
}

/* The frames of n, with those of t (NULL: they do not join) where the native frames of its runs are. */
static int fill_native_stack(struct fill *f, const struct native_thread *n, const struct python_thread *t) {
        bool by_place = t && all_have_places(n, t);
        size_t index = 0;
        int r = fill_kernel_stack(f, n->kernel);

        for (size_t i = 0; r == 0 && i < n->n && !f->cut; i++)
                if (is_run(n, i, t, index, by_place))
                        r = fill_run(f, t, false, &index);
                else if (takes_frame(f))
                        r = fill_native_frame(f, &n->frames[i]);
        return r;
}

/* --- Waits and sockets -------------------------------------------------------------------------------- */

static int fill_waits(struct fill *f, const struct waits *from, size_t task) {
        const struct waits_span *span = task < from->n_threads ? &from->threads[task] : NULL;

        for (uint32_t i = 0; span && i < span->n; i++) {
                const struct thread_wait *w = &from->items[span->first + i];
                struct captured_wait to = w->w;
                int r;

                if (f->writer && !capture_writer_takes_wait(f->writer))
                        return 0;
                r = fill_text(f, w->text, &to.text);
                if (r == 0)
                        r = host_capture_add_wait(f->c, &to);
                if (r < 0)
                        return r == -E2BIG ? 0 : r;
        }
        return 0;
}

static int fill_sockets(struct fill *f, const struct sockets *from) {
        for (size_t i = 0; i < from->n; i++) {
                struct captured_socket to = from->items[i].s;
                int r;

                if (f->writer && !capture_writer_takes_socket(f->writer))
                        return 0;
                r = fill_text(f, from->items[i].local, &to.local);
                if (r == 0)
                        r = fill_text(f, from->items[i].remote, &to.remote);
                if (r == 0)
                        r = host_capture_add_socket(f->c, &to);
                if (r < 0)
                        return r == -E2BIG ? 0 : r;
        }
        return 0;
}

int fill_ends(struct fill *f, const struct ends *from) {
        for (size_t i = 0; i < from->n; i++) {
                struct captured_end to = from->items[i].e;
                int r;

                if (f->writer && !capture_writer_takes_end(f->writer))
                        return 0;
                r = fill_words(f, from->items[i].command, &to.command);
                if (r == 0)
                        r = host_capture_add_end(f->c, &to);
                if (r < 0)
                        return r == -E2BIG ? 0 : r;
        }
        return 0;
}

/* --- Threads ------------------------------------------------------------------------------------------- */

static int fill_stack(struct fill *f, const struct native_thread *n, const struct python_thread *t,
                      bool joined, uint32_t *ret) {
        size_t index = 0;
        int r = 0;

        f->n = 0;
        f->cut = false;
        if (n)
                r = fill_native_stack(f, n, joined ? t : NULL);
        if (r == 0 && t && !joined)
                r = fill_run(f, t, true, &index);
        if (r < 0 || (t && t->error && !n))
                return MIN(r, 0);
        for (size_t i = 0; i < f->n / 2; i++) { /* outermost first in the table */
                uint32_t frame = f->frames[i];

                f->frames[i] = f->frames[f->n - 1 - i];
                f->frames[f->n - 1 - i] = frame;
        }
        return stack_table_stack(f->t, f->frames, f->n, ret);
}

static int fill_task(struct fill *f, const struct task *task, struct captured_thread *to) {
        int r = fill_text(f, task->name, &to->name);

        to->tid = (uint32_t) task->tid;
        to->state = task->state;
        to->cpu_usec = process_usec(task->cpu_ticks);
        if (r == 0)
                r = fill_text(f, task->wait, &to->wait);
        return r < 0 ? r : fill_text(f, task->call, &to->syscall);
}

/* t: NULL: it runs no Python; n: NULL: no native frames were asked for. */
static int fill_thread(struct fill *f, const struct capture *from, const struct native_thread *n,
                       const struct python_thread *t, const struct task *task) {
        struct captured_thread *added, to;
        struct thread_detail *d;
        bool joined = n && t && stack_joins(n, t);
        int r = host_capture_add_thread(f->c, &added);

        if (r < 0)
                return r == -E2BIG ? 0 : r;
        to = *added;
        r = fill_stack(f, n, t, joined, &to.stack);
        if (r == 0 && task)
                r = fill_task(f, task, &to);
        d = &f->c->details[f->c->n_threads - 1];
        if (t) {
                to.gil = t->gil;
                to.changed = t->changed;
                d->python = true;
                d->interpreter = (uint32_t) t->id.interpreter;
                d->python_cut = t->chain.cut || f->cut;
                if (r == 0 && t->error)
                        r = fill_text(f, t->error == -ELOOP ? "loop" : "malformed", &d->python_error);
        }
        if (n) {
                d->native = true;
                d->merged = joined;
                d->native_cut = n->cut || f->cut;
                d->pause_ns = n->pause_ns;
                if (r == 0 && n->error)
                        r = fill_text(f, native_error(n->error), &d->native_error);
        }
        f->c->threads[f->c->n_threads - 1] = to;
        if (r == 0 && task)
                r = fill_waits(f, &from->waits, (size_t) (task - from->tasks.items));
        return r < 0 || !f->writer ? r : capture_writer_thread(f->writer);
}

/* --- Processes ----------------------------------------------------------------------------------------- */

static int on_module(const struct native_module *m, void *userdata) {
        struct captured_module module = { .start = m->start };
        struct fill *f = userdata;
        int r;

        if (!has_room(f) || (f->writer && !capture_writer_takes_module(f->writer)))
                return 1;
        r = fill_text(f, m->name, &module.path);
        if (r == 0)
                r = fill_text(f, m->build_id, &module.build_id);
        if (r == 0)
                r = host_capture_add_module(f->c, &module);
        return r == -E2BIG ? 1 : r;
}

static int fill_kernel(struct fill *f, const struct capture *from, struct captured_process *p) {
        if (from->kernel_why[0])
                return fill_text(f, from->kernel_why, &p->kernel_unknown);
        return from->native.n == 0
                       ? 0
                       : fill_text(f, from->native.kernel_by_proc ? "/proc/TID/stack" : "iter/task",
                                   &p->kernel_by);
}

static int fill_head(struct fill *f, const struct capture *from) {
        char version[PYTHON_VERSION_MAX];
        struct captured_process *p;
        int r = host_capture_add_process(f->c, &p);

        if (r < 0)
                return r;
        p->pid = (uint32_t) from->process.pid;
        p->other_threads = (uint32_t) from->other_threads;
        if (from->n_threads > 0 && from->threads[0].task)
                p->state = from->threads[0].task->state;
        else if (from->n_threads == 0 && from->tasks.n > 0)
                p->state = from->tasks.items[0].state;
        p->parent = (uint32_t) from->waits.parent;
        p->children_gone = from->waits.children_gone;
        p->cpu_usec = from->waits.cpu_usec;
        p->start_ticks = from->waits.start_ticks;
        r = fill_text(f, from->command, &p->command);
        if (r == 0 && from->no_python)
                r = fill_words(f, from->no_python_why, &p->no_python);
        else if (r == 0)
                r = fill_text(f, python_version_text(from->interpreter.version, version), &p->python);
        return r < 0 ? r : fill_kernel(f, from, p);
}

int fill_process(struct fill *f, const struct capture *from) {
        int r = fill_head(f, from);

        f->c->cut |= from->waits.cut;
        if (f->writer)
                f->writer->cut |= from->waits.cut;

        if (r == 0 && from->native.unwinder)
                r = MIN(unwinder_modules(from->native.unwinder, on_module, f), 0);
        if (r == 0)
                r = fill_sockets(f, &from->waits.sockets);
        for (size_t i = 0; i < from->n_threads && r == 0 && takes_thread(f); i++) {
                const struct task *task = from->threads[i].task;

                r = fill_thread(f, from, task ? capture_native(from, task->tid) : NULL, &from->threads[i],
                                task);
        }
        for (size_t i = 0; i < from->tasks.n && r == 0 && takes_thread(f); i++)
                if (!capture_runs_python(from, &from->tasks.items[i]))
                        r = fill_thread(f, from, i < from->native.n ? &from->native.threads[i] : NULL, NULL,
                                        &from->tasks.items[i]);
        return r;
}

int fill_failure(struct fill *f, pid_t pid, const char *command, const char *why) {
        struct captured_process *p;
        int r = host_capture_add_process(f->c, &p);

        if (r < 0)
                return r;
        p->pid = (uint32_t) pid;
        r = fill_text(f, command, &p->command);
        return r < 0 ? r : fill_words(f, why, &p->error);
}
