/* SPDX-License-Identifier: Apache-2.0 */
#include "print_json.h"

#include "one_stack.h"
#include "text.h"

#define FRAME_BYTES 160u   /* a frame's JSON without its names */
#define THREAD_BYTES 1024u /* more than a thread without its frames takes */

/* Room for s in JSON, at most: control characters take six bytes. */
static size_t json_bytes(const char *s) {
        return 6 * strlen(s);
}

/* key: with its quotes, colon and the comma before it. */
static void put_text(struct sink *s, const char *key, const char *text) {
        sink_text(s, key);
        sink_json(s, text, strlen(text));
}

static void put_number(struct sink *s, const char *key, int64_t n) {
        sink_text(s, key);
        sink_number(s, n);
}

static void put_bool(struct sink *s, const char *key, bool v) {
        sink_text(s, key);
        sink_text(s, v ? "true" : "false");
}

/* What may hold names of the target as they are, or be cut within a character. */
static void put_words(struct sink *s, const char *key, const char *words) {
        char clean[PROCESS_COMMAND_MAX];

        (void) snprintf(clean, sizeof(clean), "%s", words);
        text_clean(clean);
        put_text(s, key, clean);
}

static size_t locals_bytes(const struct frame_locals *l) {
        size_t n = 0;

        for (size_t i = 0; l && i < l->n; i++)
                n += FRAME_BYTES + json_bytes(l->items[i].name) + json_bytes(l->items[i].value);
        return n;
}

static void put_locals(struct sink *s, const struct frame_locals *l) {
        sink_text(s, ",\"locals\":{");
        for (size_t i = 0; i < l->n; i++) {
                sink_text(s, i > 0 ? "," : "");
                sink_json(s, l->items[i].name, strlen(l->items[i].name));
                put_text(s, ":", l->items[i].value);
        }
        sink_text(s, "}");
}

static void put_python(struct sink *s, const struct frame *f, const struct frame_locals *locals) {
        put_text(s, "{\"file\":", f->code ? f->code->file : "?");
        put_number(s, ",\"line\":", f->line);
        put_text(s, ",\"function\":", f->code ? f->code->function : "?");
        if (locals)
                put_locals(s, locals);
        sink_text(s, "}");
}

/* "function" is "" when it has no name; "address" then tells it: it is the same wherever the file is mapped. */
static void put_native(struct sink *to, const struct native_frame *f) {
        const struct native_symbol *s = f->symbol;

        put_text(to, "{\"kind\":\"native\",\"function\":", s->name ? s->name : "");
        put_number(to, ",\"offset\":", (int64_t) s->offset);
        if (s->module) {
                put_text(to, ",\"module\":", s->module->name);
                put_number(to, ",\"address\":", (int64_t) (f->pc - s->module->start));
        } else
                put_number(to, ",\"pc\":", (int64_t) f->pc);
        sink_text(to, "}");
}

/* "pipe_read+0x366/0x410" */
static void put_kernel(struct sink *s, const char *text, size_t len) {
        const char *plus = memchr(text, '+', len);

        sink_text(s, "{\"kind\":\"kernel\",\"function\":");
        sink_json(s, text, plus ? (size_t) (plus - text) : len);
        put_number(s, ",\"offset\":", plus ? (int64_t) strtoull(plus + 1, NULL, 16) : 0);
        sink_text(s, "}");
}

static size_t frame_bytes(const struct joined_frame *f) {
        const struct native_symbol *s;

        switch (f->kind) {
        case JOINED_KERNEL:
                return FRAME_BYTES + 6 * f->kernel_len;
        case JOINED_NATIVE:
                s = f->native->symbol;
                return FRAME_BYTES + json_bytes(s->name ? s->name : "") +
                       json_bytes(s->module ? s->module->name : "");
        case JOINED_PYTHON:
                return FRAME_BYTES +
                       (f->python->code
                                ? json_bytes(f->python->code->file) + json_bytes(f->python->code->function)
                                : 0) +
                       locals_bytes(f->locals);
        }
        return 0;
}

struct frames {
        struct output *output;
        size_t n;
};

static int put_frame(const struct joined_frame *f, void *userdata) {
        struct frames *to = userdata;
        struct sink *s = &to->output->sink;

        if (!output_has_room(to->output, frame_bytes(f)))
                return -E2BIG;
        sink_text(s, to->n++ > 0 ? "," : "");
        switch (f->kind) {
        case JOINED_KERNEL:
                put_kernel(s, f->kernel, f->kernel_len);
                break;
        case JOINED_NATIVE:
                put_native(s, f->native);
                break;
        case JOINED_PYTHON:
                put_python(s, f->python, f->locals);
                break;
        }
        return 0;
}

/* All frames of a thread as one stack; where they do not join, the native ones come first. n, t: NULL: none.
 * That some found no room is remembered by the output. */
static void put_frames(struct output *o, const struct native_thread *n, const struct python_thread *t) {
        struct frames to = { o, 0 };
        bool joined = n && t && stack_joins(n, t);

        sink_text(&o->sink, "\"frames\":[");
        if (n)
                (void) stack_walk(n, joined ? t : NULL, put_frame, &to);
        if (t && !joined)
                (void) stack_walk(NULL, t, put_frame, &to);
        sink_text(&o->sink, "]");
}

static void put_of_native(struct sink *s, const struct native_thread *n, const struct python_thread *t) {
        put_bool(s, ",\"native\":{\"merged\":", t && stack_joins(n, t));
        put_bool(s, ",\"cut\":", n->cut);
        put_number(s, ",\"pause_ns\":", (int64_t) n->pause_ns);
        if (n->error)
                put_text(s, ",\"error\":", native_error(n->error));
        sink_text(s, "}");
}

static void put_task(struct sink *s, const struct task *task) {
        put_number(s, ",\"tid\":", task->tid);
        put_text(s, ",\"name\":", task->name);
        put_text(s, ",\"state\":", (char[]){ task->state, '\0' });
        if (task->wait[0])
                put_text(s, ",\"wait\":", task->wait);
        if (task->call[0])
                put_text(s, ",\"syscall\":", task->call);
}

static void put_of_python(struct sink *s, const struct python_thread *t) {
        put_number(s, ",\"interpreter\":", (int64_t) t->id.interpreter);
        put_bool(s, ",\"gil\":", t->gil);
        put_bool(s, ",\"changed\":", t->changed);
        if (t->error)
                put_text(s, ",\"error\":", t->error == -ELOOP ? "loop" : "malformed");
}

/* t: NULL: it runs no Python. */
static void put_thread(struct output *o, bool first, const struct native_thread *n,
                       const struct python_thread *t, const struct task *task) {
        struct sink *s = &o->sink;

        sink_text(s, first ? "{" : ",{");
        put_frames(o, n, t);
        put_bool(s, ",\"frames_cut\":", o->cut || (t && t->chain.cut) || (n && n->cut));
        if (t)
                put_of_python(s, t);
        if (n)
                put_of_native(s, n, t);
        if (task)
                put_task(s, task);
        sink_text(s, "}");
}

/* Those that run no Python are there when their native stacks are. */
static void put_threads(struct output *o, const struct capture *c) {
        size_t put = 0;

        sink_text(&o->sink, ",\"threads\":[");
        for (size_t i = 0; i < c->n_threads && output_has_room(o, THREAD_BYTES); i++) {
                const struct task *task = c->threads[i].task;

                put_thread(o, put++ == 0, task ? capture_native(c, task->tid) : NULL, &c->threads[i], task);
        }
        for (size_t i = 0; i < c->native.n && output_has_room(o, THREAD_BYTES); i++)
                if (!capture_runs_python(c, &c->tasks.items[i]))
                        put_thread(o, put++ == 0, &c->native.threads[i], NULL, &c->tasks.items[i]);
        sink_text(&o->sink, "]");
}

static int put_module(const struct native_module *m, void *userdata) {
        struct frames *to = userdata;
        struct sink *s = &to->output->sink;

        if (!output_has_room(to->output, FRAME_BYTES + json_bytes(m->name) + sizeof(m->build_id)))
                return -E2BIG;
        put_text(s, to->n++ > 0 ? ",{\"path\":" : "{\"path\":", m->name);
        put_text(s, ",\"build_id\":", m->build_id);
        put_number(s, ",\"start\":", (int64_t) m->start);
        sink_text(s, "}");
        return 0;
}

static void put_modules(struct output *o, const struct capture *c) {
        struct frames to = { o, 0 };

        if (c->kernel_why[0])
                put_text(&o->sink, ",\"kernel_unknown\":", c->kernel_why);
        else
                put_text(&o->sink,
                         ",\"kernel_by\":", c->native.kernel_by_proc ? "/proc/TID/stack" : "iter/task");
        sink_text(&o->sink, ",\"modules\":[");
        (void) native_modules(&c->native, put_module, &to); /* output_has_room() remembers */
        sink_text(&o->sink, "]");
}

static void put_process(struct output *o, pid_t pid, const char *command) {
        put_number(&o->sink, o->processes > 0 ? ",{\"pid\":" : "{\"pid\":", pid);
        put_text(&o->sink, ",\"command\":", command);
}

void json_begin(struct output *o) {
        sink_text(&o->sink, "{\"version\":1,\"processes\":[");
}

void json_capture(struct output *o, const struct capture *c) {
        char version[PYTHON_VERSION_MAX];
        struct sink *s = &o->sink;

        put_process(o, c->process.pid, c->command);
        if (c->no_python)
                put_words(s, ",\"no_python\":", c->no_python_why);
        else
                put_text(s, ",\"python\":", python_version_text(c->interpreter.version, version));
        put_number(s, ",\"other_threads\":", (int64_t) c->other_threads);
        put_threads(o, c);
        if (c->native.n > 0)
                put_modules(o, c);
        sink_text(s, "}");
}

void json_failure(struct output *o, pid_t pid, const char *command, const char *why) {
        put_process(o, pid, command);
        put_words(&o->sink, ",\"error\":", why);
        sink_text(&o->sink, "}");
}

void json_end(struct output *o) {
        put_bool(&o->sink, "],\"cut\":", o->cut);
        sink_text(&o->sink, "}\n");
}
