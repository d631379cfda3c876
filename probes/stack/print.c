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
        if (t->call[0]) {
                sink_text(s, " in ");
                sink_text(s, t->call);
        }
        if (t->wait[0]) {
                sink_text(s, t->call[0] ? " (" : " in ");
                sink_shown(s, t->wait);
                sink_text(s, t->call[0] ? ")" : "");
        }
}

static void put_thread(struct sink *s, const struct python_thread *t) {
        sink_text(s, "thread ");
        if (t->task) {
                sink_number(s, t->task->tid);
                sink_text(s, " \"");
                sink_shown(s, t->task->name);
                sink_text(s, "\"");
        } else
                sink_text(s, "?");
        if (t->gil)
                sink_text(s, " [gil]");
        if (t->id.interpreter != 0) {
                sink_text(s, " [interpreter ");
                sink_number(s, (int64_t) t->id.interpreter);
                sink_text(s, "]");
        }
        if (t->changed)
                sink_text(s, " [changed while read]");
        if (t->task) {
                sink_text(s, " ");
                sink_text(s, state_words(t->task));
        }
        if (t->task && t->task->state != 'T' && t->task->state != 't')
                put_wait(s, t->task);
        sink_text(s, "\n");
}

static void put_frame(struct sink *s, const struct frame *f) {
        if (!f->code) {
                sink_text(s, "  (a frame whose name was not read: too many names)\n");
                return;
        }
        sink_text(s, "  File \"");
        sink_shown(s, f->code->file);
        sink_text(s, "\", line ");
        if (f->line > 0)
                sink_number(s, f->line);
        else
                sink_text(s, "?");
        sink_text(s, ", in ");
        sink_shown(s, f->code->function);
        sink_text(s, "\n");
}

static void put_address(struct sink *s, const char *before, uint64_t address) {
        sink_text(s, before);
        sink_hex(s, address);
}

static void put_native_frame(struct sink *to, const struct native_frame *f) {
        const struct native_symbol *s = f->symbol;
        const char *slash = s->module ? strrchr(s->module->name, '/') : NULL;

        sink_text(to, "  ");
        if (s->name) {
                sink_shown(to, s->name);
                put_address(to, "+0x", s->offset);
        } else
                put_address(to, "0x", f->pc);
        if (s->module) {
                sink_text(to, " (");
                sink_shown(to, slash ? slash + 1 : s->module->name);
                if (!s->name)
                        put_address(to, "+0x", f->pc - s->module->start);
                sink_text(to, ")");
        }
        sink_text(to, "\n");
}

static void put_locals(struct output *o, const struct frame_locals *l) {
        for (size_t i = 0; l && i < l->n && output_has_room(o, 0); i++) {
                sink_text(&o->sink, "    ");
                sink_shown(&o->sink, l->items[i].name);
                sink_text(&o->sink, " = ");
                sink_shown(&o->sink, l->items[i].value);
                sink_text(&o->sink, "\n");
        }
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
        if (n->error) {
                sink_text(s, "  (no native stack: ");
                sink_text(s, native_error(n->error));
                sink_text(s, ")\n");
        } else if (n->cut)
                sink_text(s, "  (more native frames, which cannot be told)\n");
}

static void put_python_end(struct sink *s, const struct python_thread *t) {
        if (t->error)
                sink_text(s, t->error == -ELOOP ? "  (not readable: the frames form a loop)\n"
                                                : "  (not readable: the frames do not make sense)\n");
        else if (t->chain.cut) {
                sink_text(s, "  (more frames: only the innermost ");
                sink_number(s, (int64_t) t->chain.n);
                sink_text(s, " were read)\n");
        } else if (!python_shown(t) && t->changed)
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

        sink_text(s, "process ");
        sink_number(s, c->process.pid);
        sink_text(s, " ");
        sink_shown(s, c->command);
        if (c->no_python) {
                sink_text(s, " (native stacks only: ");
                sink_text(s, c->no_python_why);
        } else {
                sink_text(s, " (CPython ");
                sink_text(s, python_version_text(c->interpreter.version, version));
        }
        sink_text(s, ")\n");
        if (c->kernel_why[0]) {
                sink_text(s, "kernel stacks: UNKNOWN: ");
                sink_text(s, c->kernel_why);
                sink_text(s, "\n");
        }
}

static void text_capture(struct output *o, const struct capture *c) {
        put_head(&o->sink, c);
        for (size_t i = 0; i < c->n_threads && output_has_room(o, 0); i++)
                text_thread(o, c, &c->threads[i]);
        if (c->native.n > 0)
                text_other_threads(o, c);
        else if (c->other_threads > 0) {
                sink_number(&o->sink, (int64_t) c->other_threads);
                sink_text(&o->sink, c->other_threads == 1
                                            ? " other thread of this process runs no Python\n"
                                            : " other threads of this process run no Python\n");
        }
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
        char cut[64];

        if (o->json)
                json_end(o);
        else if (o->cut) {
                (void) snprintf(cut, sizeof(cut), "(output ends here: more than %u bytes)\n", OUTPUT_MAX);
                sink_text(&o->sink, cut);
        }
        return sink_flush(&o->sink);
}
