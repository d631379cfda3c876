/* SPDX-License-Identifier: Apache-2.0 */
#include "print.h"
#include "one_stack.h"
#include "print_json.h"

#include <stdarg.h>

#define LINE_MAX_BYTES (40u * 1024) /* a frame in text: two names of TEXT_MAX, each byte escaped to four */

int output_init(struct output *o, FILE *file, bool json) {
        *o = (struct output) { .file = file };
        if (json && !(o->processes = json_array()))
                return -ENOMEM;
        return 0;
}

bool output_has_room(struct output *o, size_t bytes) {
        if (o->bytes + bytes > OUTPUT_MAX - LINE_MAX_BYTES)
                o->cut = true;
        return !o->cut;
}

_printf_(2, 3) static void put(struct output *o, const char *fmt, ...) {
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vfprintf(o->file, fmt, ap);
        va_end(ap);
        o->bytes += (size_t) MAX(n, 0);
}

/* Bytes of the control character at s (C0, DEL, C1 in UTF-8), 0 when it is none. */
static size_t control_bytes(const char *s) {
        uint8_t first = (uint8_t) s[0], second = first ? (uint8_t) s[1] : 0;

        if (first < 0x20 || first == 0x7F)
                return 1;
        return first == 0xC2 && second < 0xA0 ? 2 : 0;
}

/* s is UTF-8: what would move the cursor is escaped. */
static void put_name(struct output *o, const char *s) {
        while (*s) {
                size_t n = 0, control;

                while ((control = control_bytes(s + n)) == 0)
                        n++;
                (void) fwrite(s, 1, n, o->file); /* a failure is seen at output_finish() */
                o->bytes += n;
                s += n;
                if (!*s)
                        return;
                put(o, "\\x%02x", (unsigned) (uint8_t) s[control - 1]);
                s += control;
        }
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
static void put_wait(struct output *o, const struct task *t) {
        if (t->call[0])
                put(o, " in %s", t->call);
        if (t->wait[0]) {
                put(o, t->call[0] ? " (" : " in ");
                put_name(o, t->wait);
                put(o, t->call[0] ? ")" : "");
        }
}

static void put_thread(struct output *o, const struct python_thread *t) {
        if (t->task) {
                put(o, "thread %d \"", (int) t->task->tid);
                put_name(o, t->task->name);
                put(o, "\"");
        } else
                put(o, "thread ?");
        if (t->gil)
                put(o, " [gil]");
        if (t->id.interpreter != 0)
                put(o, " [interpreter %" PRIu64 "]", t->id.interpreter);
        if (t->changed)
                put(o, " [changed while read]");
        if (t->task)
                put(o, " %s", state_words(t->task));
        if (t->task && t->task->state != 'T' && t->task->state != 't')
                put_wait(o, t->task);
        put(o, "\n");
}

static void put_frame(struct output *o, const struct frame *f) {
        int line;

        if (!f->code) {
                put(o, "  (a frame whose name was not read: too many names)\n");
                return;
        }
        line = code_line(f->code, f->instruction);
        put(o, "  File \"");
        put_name(o, f->code->file);
        if (line > 0)
                put(o, "\", line %d, in ", line);
        else
                put(o, "\", line ?, in ");
        put_name(o, f->code->function);
        put(o, "\n");
}

static void put_native_frame(struct output *o, const struct native_frame *f) {
        const struct native_symbol *s = f->symbol;
        const char *slash = s->module ? strrchr(s->module->name, '/') : NULL;

        put(o, "  ");
        if (s->name) {
                put_name(o, s->name);
                put(o, "+0x%" PRIx64, s->offset);
        } else
                put(o, "0x%" PRIx64, f->pc);
        if (s->module) {
                put(o, " (");
                put_name(o, slash ? slash + 1 : s->module->name);
                if (!s->name)
                        put(o, "+0x%" PRIx64, f->pc - s->module->start);
                put(o, ")");
        }
        put(o, "\n");
}

static void put_locals(struct output *o, const struct frame_locals *l) {
        for (size_t i = 0; l && i < l->n && output_has_room(o, 0); i++) {
                put(o, "    ");
                put_name(o, l->items[i].name);
                put(o, " = ");
                put_name(o, l->items[i].value);
                put(o, "\n");
        }
}

/* "  NAME+0x1 (MODULE)", "  [kernel] NAME+0x1/0x2", "  File …". */
static int put_joined(const struct joined_frame *f, void *userdata) {
        struct output *o = userdata;

        if (!output_has_room(o, 0))
                return -E2BIG;
        switch (f->kind) {
        case JOINED_KERNEL:
                put(o, "  [kernel] %.*s\n", (int) f->kernel_len, f->kernel);
                break;
        case JOINED_NATIVE:
                put_native_frame(o, f->native);
                break;
        case JOINED_PYTHON:
                put_frame(o, f->python);
                put_locals(o, f->locals);
                break;
        }
        return 0;
}

static void put_native_end(struct output *o, const struct native_thread *n) {
        if (n->error)
                put(o, "  (no native stack: %s)\n", native_error(n->error));
        else if (n->cut)
                put(o, "  (more native frames, which cannot be told)\n");
}

static void put_python_end(struct output *o, const struct python_thread *t) {
        if (t->error)
                put(o, "  (not readable: %s)\n",
                    t->error == -ELOOP ? "the frames form a loop" : "the frames do not make sense");
        else if (t->chain.cut)
                put(o, "  (more frames: only the innermost %zu were read)\n", t->chain.n);
        else if (!python_shown(t) && t->changed)
                put(o, "  (it ran all the time: no reading made sense)\n");
        else if (!python_shown(t))
                put(o, "  (no Python frame)\n");
}

static void text_thread(struct output *o, const struct capture *c, const struct python_thread *t) {
        const struct native_thread *n = t->task ? capture_native(c, t->task->tid) : NULL;
        bool joined = n && stack_joins(n, t);

        put_thread(o, t);
        /* output_has_room() remembers that there was none */
        if (n)
                (void) stack_walk(n, joined ? t : NULL, put_joined, o);
        if (n)
                put_native_end(o, n);
        if (joined)
                return;
        if (n && t->chain.n > 0)
                put(o, "  Python, of another moment or not to be matched with the above:\n");
        (void) stack_walk(NULL, t, put_joined, o);
        put_python_end(o, t);
}

static void text_other_threads(struct output *o, const struct capture *c) {
        for (size_t i = 0; i < c->native.n && i < c->tasks.n && output_has_room(o, 0); i++) {
                struct python_thread t = { .task = &c->tasks.items[i] };

                if (capture_runs_python(c, t.task))
                        continue;
                put_thread(o, &t);
                (void) stack_walk(&c->native.threads[i], NULL, put_joined, o);
                put_native_end(o, &c->native.threads[i]);
        }
}

static void text_capture(struct output *o, const struct capture *c) {
        char version[PYTHON_VERSION_MAX];

        put(o, "process %d ", (int) c->process.pid);
        put_name(o, c->command);
        if (c->no_python)
                put(o, " (native stacks only: %s)\n", c->no_python_why);
        else
                put(o, " (CPython %s)\n", python_version_text(c->interpreter.version, version));
        if (c->kernel_why[0])
                put(o, "kernel stacks: UNKNOWN: %s\n", c->kernel_why);
        for (size_t i = 0; i < c->n_threads && output_has_room(o, 0); i++)
                text_thread(o, c, &c->threads[i]);
        if (c->native.n > 0)
                text_other_threads(o, c);
        else if (c->other_threads > 0)
                put(o, "%zu other thread%s of this process run%s no Python\n", c->other_threads,
                    c->other_threads == 1 ? "" : "s", c->other_threads == 1 ? "s" : "");
}

int output_capture(struct output *o, const struct capture *c) {
        if (o->cut)
                return 0;
        if (o->processes)
                return json_capture(o, c);
        text_capture(o, c);
        return 0;
}

int output_failure(struct output *o, pid_t pid, const char *command, const char *why) {
        return !o->processes || o->cut ? 0 : json_failure(o, pid, command, why);
}

int output_finish(struct output *o) {
        int r = 0;

        if (o->processes) {
                json_t *v = json_pack("{s:i, s:b, s:o}", "version", 1, "cut", o->cut, "processes",
                                      TAKE_PTR(o->processes));

                if (!v)
                        r = -ENOMEM;
                else if (json_dumpf(v, o->file, JSON_COMPACT) < 0 || fputc('\n', o->file) == EOF)
                        r = -EIO;
                json_decref(v);
        } else if (o->cut)
                put(o, "(output ends here: more than %u bytes)\n", OUTPUT_MAX);
        if (fflush(o->file) != 0 || ferror(o->file))
                r = -EIO;
        return r;
}
