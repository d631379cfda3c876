/* SPDX-License-Identifier: Apache-2.0 */
#include "print.h"

#include "one_stack.h"
#include "print_json.h"

#define LINE_MAX_BYTES (40u * 1024) /* a frame in text: two names of TEXT_MAX, each byte escaped to four */

void output_init(struct output *o, FILE *file, bool json) {
        o->json = json;
        o->cut = false;
        o->processes = 0;
        sink_init(&o->sink, file);
        if (json)
                json_begin(o);
}

bool output_has_room(struct output *o, size_t bytes) {
        if (sink_bytes_put(&o->sink) + bytes > OUTPUT_MAX - LINE_MAX_BYTES)
                o->cut = true;
        return !o->cut;
}

static const char *state_words(const struct task *t) {
        switch (t->state) {
        case 'R':
                return "running";
        case 'S':
        case 'I':
                return "waits";
        case 'D':
                return "waits uninterruptibly";
        case 'T':
                return "stopped";
        case 't':
                return "stopped by a tracer";
        case 'Z':
        case 'X':
                return "has exited";
        }
        return "in an unknown state";
}

/* " in read (pipe_read)": the system call, and where in the kernel. */
static void put_wait(struct sink *s, const struct task *t) {
        if (t->call[0] && t->wait[0])
                sink_format(s, " in %s (%s)", t->call, t->wait);
        else if (t->call[0] || t->wait[0])
                sink_format(s, " in %s", t->call[0] ? t->call : t->wait);
}

static void put_thread(struct sink *s, const struct python_thread *t) {
        if (t->task)
                sink_format(s, "thread %d \"%s\"", (int) t->task->tid, t->task->name);
        else
                sink_text(s, "thread ?");
        if (t->gil)
                sink_text(s, " [gil]");
        if (t->id.interpreter != 0)
                sink_format(s, " [interpreter %ld]", (long) t->id.interpreter);
        if (t->changed)
                sink_text(s, " [changed while read]");
        if (t->task)
                sink_format(s, " %s", state_words(t->task));
        if (t->task && t->task->state != 'T' && t->task->state != 't')
                put_wait(s, t->task);
        sink_text(s, "\n");
}

static void put_frame(struct sink *s, const struct frame *f) {
        if (!f->code)
                sink_text(s, "  (a frame whose name was not read: too many names)\n");
        else if (f->line > 0)
                sink_format(s, "  File \"%s\", line %d, in %s\n", f->code->file, f->line, f->code->function);
        else
                sink_format(s, "  File \"%s\", line ?, in %s\n", f->code->file, f->code->function);
}

static void put_native_frame(struct sink *to, const struct native_frame *f) {
        const struct native_symbol *s = f->symbol;
        const char *module = s->module ? basename(s->module->name) : NULL;

        if (s->name)
                sink_format(to, "  %s+0x%lx", s->name, (unsigned long) s->offset);
        else
                sink_format(to, "  0x%lx", (unsigned long) f->pc);
        if (module && s->name)
                sink_format(to, " (%s)", module);
        else if (module)
                sink_format(to, " (%s+0x%lx)", module, (unsigned long) (f->pc - s->module->start));
        sink_text(to, "\n");
}

static void put_locals(struct output *o, const struct frame_locals *l) {
        for (size_t i = 0; l && i < l->n && output_has_room(o, 0); i++)
                sink_format(&o->sink, "    %s = %s\n", l->items[i].name, l->items[i].value);
}

/* "  NAME+0x1 (MODULE)", "  [kernel] NAME+0x1/0x2", "  File …". */
static int put_joined(const struct joined_frame *f, void *userdata) {
        struct output *o = userdata;

        if (!output_has_room(o, 0))
                return -E2BIG;
        switch (f->kind) {
        case JOINED_KERNEL:
                sink_text(&o->sink, "  [kernel] ");
                sink_put(&o->sink, f->kernel, f->kernel_len);
                sink_text(&o->sink, "\n");
                break;
        case JOINED_NATIVE:
                put_native_frame(&o->sink, f->native);
                break;
        case JOINED_PYTHON:
                put_frame(&o->sink, f->python);
                put_locals(o, f->locals);
                break;
        }
        return 0;
}

static void put_native_end(struct sink *s, const struct native_thread *n) {
        if (n->error)
                sink_format(s, "  (no native stack: %s)\n", native_error(n->error));
        else if (n->cut)
                sink_text(s, "  (more native frames, which cannot be told)\n");
}

static void put_python_end(struct sink *s, const struct python_thread *t) {
        if (t->error)
                sink_text(s, t->error == -ELOOP ? "  (not readable: the frames form a loop)\n"
                                                : "  (not readable: the frames do not make sense)\n");
        else if (t->chain.cut)
                sink_format(s, "  (more frames: only the innermost %ld were read)\n", (long) t->chain.n);
        else if (!python_shown(t) && t->changed)
                sink_text(s, "  (it ran all the time: no reading made sense)\n");
        else if (!python_shown(t))
                sink_text(s, "  (no Python frame)\n");
}

static void text_thread(struct output *o, const struct capture *c, const struct python_thread *t) {
        const struct native_thread *n = t->task ? capture_native(c, t->task->tid) : NULL;
        bool joined = n && stack_joins(n, t);

        put_thread(&o->sink, t);
        /* output_has_room() remembers that there was none */
        if (n)
                (void) stack_walk(n, joined ? t : NULL, put_joined, o);
        if (n)
                put_native_end(&o->sink, n);
        if (joined)
                return;
        if (n && t->chain.n > 0)
                sink_text(&o->sink, "  Python, of another moment or not to be matched with the above:\n");
        (void) stack_walk(NULL, t, put_joined, o);
        put_python_end(&o->sink, t);
}

static void text_other_threads(struct output *o, const struct capture *c) {
        for (size_t i = 0; i < c->native.n && i < c->tasks.n && output_has_room(o, 0); i++) {
                struct python_thread t = { .task = &c->tasks.items[i] };

                if (capture_runs_python(c, t.task))
                        continue;
                put_thread(&o->sink, &t);
                (void) stack_walk(&c->native.threads[i], NULL, put_joined, o);
                put_native_end(&o->sink, &c->native.threads[i]);
        }
}

static void put_head(struct sink *s, const struct capture *c) {
        char version[PYTHON_VERSION_MAX];

        sink_format(s, "process %d %s", (int) c->process.pid, c->command);
        if (c->no_python)
                sink_format(s, " (native stacks only: %s)\n", c->no_python_why);
        else
                sink_format(s, " (CPython %s)\n", python_version_text(c->interpreter.version, version));
        if (c->kernel_why[0])
                sink_format(s, "kernel stacks: UNKNOWN: %s\n", c->kernel_why);
}

static void text_capture(struct output *o, const struct capture *c) {
        put_head(&o->sink, c);
        for (size_t i = 0; i < c->n_threads && output_has_room(o, 0); i++)
                text_thread(o, c, &c->threads[i]);
        if (c->native.n > 0)
                text_other_threads(o, c);
        else if (c->other_threads > 0)
                sink_format(&o->sink,
                            c->other_threads == 1 ? "%ld other thread of this process runs no Python\n"
                                                  : "%ld other threads of this process run no Python\n",
                            (long) c->other_threads);
}

void output_capture(struct output *o, const struct capture *c) {
        if (o->cut)
                return;
        if (o->json)
                json_capture(o, c);
        else
                text_capture(o, c);
        o->processes++;
}

void output_failure(struct output *o, pid_t pid, const char *command, const char *why) {
        if (!o->json || !output_has_room(o, 0))
                return;
        json_failure(o, pid, command, why);
        o->processes++;
}

int output_finish(struct output *o) {
        if (o->json)
                json_end(o);
        else if (o->cut)
                sink_format(&o->sink, "(output ends here: more than %d bytes)\n", (int) OUTPUT_MAX);
        return sink_flush(&o->sink);
}
