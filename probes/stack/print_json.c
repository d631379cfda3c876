/* SPDX-License-Identifier: Apache-2.0 */
#include "print_json.h"

#include "one_stack.h"

#define FRAME_BYTES 96u /* a frame's JSON without its names */

/* Bytes of s in JSON: control characters take six. */
static size_t json_bytes(const char *s) {
        size_t n = 0;

        for (; *s; s++)
                n += (uint8_t) *s < 0x20 ? 6 : *s == '"' || *s == '\\' ? 2 : 1;
        return n;
}

/* There are many frames. All names are UTF-8 already: text_to_utf8(), text_clean(). What is missing for want of
 * memory shows when the whole is written. */
static void put_text(json_t *v, const char *key, const char *s) {
        (void) json_object_set_new_nocheck(v, key, json_string_nocheck(s));
}

static void put_number(json_t *v, const char *key, json_int_t n) {
        (void) json_object_set_new_nocheck(v, key, json_integer(n));
}

static void add_locals(json_t *v, const struct frame_locals *l, size_t *bytes) {
        json_t *all = json_object();

        for (size_t i = 0; i < l->n; i++) {
                (void) json_object_set_new(all, l->items[i].name, json_string(l->items[i].value));
                *bytes += FRAME_BYTES + json_bytes(l->items[i].name) + json_bytes(l->items[i].value);
        }
        (void) json_object_set_new(v, "locals", all);
}

static json_t *python_frame(const struct frame *f, size_t *ret_bytes) {
        const char *file = f->code ? f->code->file : "?", *function = f->code ? f->code->function : "?";
        int line = f->code ? code_line(f->code, f->instruction) : 0;

        json_t *v = json_object();

        *ret_bytes = json_bytes(file) + json_bytes(function);
        put_text(v, "file", file);
        put_number(v, "line", line);
        put_text(v, "function", function);
        return v;
}

/* "function" is "" when it has no name; "address" then tells it: it is the same wherever the file is mapped. */
static json_t *native_frame(const struct native_frame *f, size_t *ret_bytes) {
        const struct native_symbol *s = f->symbol;
        const char *function = s->name ? s->name : "";
        json_t *v = json_object();

        put_text(v, "kind", "native");
        put_text(v, "function", function);
        put_number(v, "offset", (json_int_t) s->offset);
        *ret_bytes = json_bytes(function) + (s->module ? json_bytes(s->module->name) : 0);
        if (s->module) {
                put_text(v, "module", s->module->name);
                put_number(v, "address", (json_int_t) (f->pc - s->module->start));
        } else
                put_number(v, "pc", (json_int_t) f->pc);
        return v;
}

/* "pipe_read+0x366/0x410" */
static json_t *kernel_frame(const char *text, size_t len, size_t *ret_bytes) {
        const char *plus = memchr(text, '+', len);
        size_t name = plus ? (size_t) (plus - text) : len;

        json_t *v = json_object();

        *ret_bytes = len;
        put_text(v, "kind", "kernel");
        (void) json_object_set_new_nocheck(v, "function", json_stringn_nocheck(text, name));
        put_number(v, "offset", plus ? (json_int_t) strtoull(plus + 1, NULL, 16) : 0);
        return v;
}

struct frames {
        struct output *output;
        json_t *array;
};

static int add_frame(const struct joined_frame *f, void *userdata) {
        struct frames *to = userdata;
        json_t *v = NULL;
        size_t bytes = 0;

        switch (f->kind) {
        case JOINED_KERNEL:
                v = kernel_frame(f->kernel, f->kernel_len, &bytes);
                break;
        case JOINED_NATIVE:
                v = native_frame(f->native, &bytes);
                break;
        case JOINED_PYTHON:
                v = python_frame(f->python, &bytes);
                if (v && f->locals)
                        add_locals(v, f->locals, &bytes);
                break;
        }
        if (!output_has_room(to->output, FRAME_BYTES + bytes)) {
                json_decref(v);
                return -E2BIG;
        }
        to->output->bytes += FRAME_BYTES + bytes;
        return json_array_append_new(to->array, v) < 0 ? -ENOMEM : 0;
}

/* All frames of a thread as one stack; where they do not join, the native ones come first. n, t: NULL: none.
 */
static json_t *json_frames(struct output *o, const struct native_thread *n, const struct python_thread *t) {
        struct frames to = { o, json_array() };
        bool joined = n && t && stack_joins(n, t);
        int r = to.array ? 0 : -ENOMEM;

        if (r == 0 && n)
                r = stack_walk(n, joined ? t : NULL, add_frame, &to);
        if (r == 0 && t && !joined)
                r = stack_walk(NULL, t, add_frame, &to);
        if (r == -ENOMEM) {
                json_decref(to.array);
                return NULL;
        }
        return to.array;
}

static json_t *json_native(const struct native_thread *n, const struct python_thread *t) {
        json_t *v = json_pack("{s:b, s:b, s:I}", "merged", t && stack_joins(n, t), "cut", n->cut, "pause_ns",
                              (json_int_t) n->pause_ns);

        if (v && n->error)
                (void) json_object_set_new(v, "error", json_string(native_error(n->error)));
        return v;
}

static void add_task(json_t *v, const struct task *task) {
        char state[2] = { task->state, '\0' };

        (void) json_object_update_new(
                v, json_pack("{s:i, s:s, s:s}", "tid", (int) task->tid, "name", task->name, "state", state));
        if (task->wait[0])
                (void) json_object_set_new(v, "wait", json_string(task->wait));
        if (task->call[0])
                (void) json_object_set_new(v, "syscall", json_string(task->call));
}

static void add_python(json_t *v, const struct python_thread *t) {
        (void) json_object_update_new(v, json_pack("{s:I, s:b, s:b}", "interpreter",
                                                   (json_int_t) t->id.interpreter, "gil", t->gil, "changed",
                                                   t->changed));
        if (t->error)
                (void) json_object_set_new(v, "error",
                                           json_string(t->error == -ELOOP ? "loop" : "malformed"));
}

/* t: NULL: it runs no Python. */
static int add_thread(struct output *o, const struct native_thread *n, const struct python_thread *t,
                      const struct task *task, json_t *to) {
        json_t *v = json_object(), *frames;
        bool cut;

        o->bytes += 1024; /* more than a thread without its frames takes */
        frames = json_frames(o, n, t);
        cut = o->cut || (t && t->chain.cut) || (n && n->cut);
        if (!v || !frames || json_object_set_new(v, "frames", frames) < 0) {
                json_decref(v);
                return -ENOMEM;
        }
        (void) json_object_set_new(v, "frames_cut", json_boolean(cut));
        if (t)
                add_python(v, t);
        if (n)
                (void) json_object_set_new(v, "native", json_native(n, t));
        if (task)
                add_task(v, task);
        return json_array_append_new(to, v) < 0 ? -ENOMEM : 0;
}

/* Those that run no Python are there when their native stacks are. */
static int add_threads(struct output *o, const struct capture *c, json_t *to) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < c->n_threads && output_has_room(o, 0); i++) {
                const struct task *task = c->threads[i].task;

                r = add_thread(o, task ? capture_native(c, task->tid) : NULL, &c->threads[i], task, to);
        }
        for (size_t i = 0; r == 0 && i < c->native.n && output_has_room(o, 1024); i++)
                if (!capture_runs_python(c, &c->tasks.items[i]))
                        r = add_thread(o, &c->native.threads[i], NULL, &c->tasks.items[i], to);
        return r;
}

static int add_module(const struct native_module *m, void *userdata) {
        struct frames *to = userdata;
        size_t bytes = FRAME_BYTES + json_bytes(m->name) + sizeof(m->build_id);

        if (!output_has_room(to->output, bytes))
                return -E2BIG;
        to->output->bytes += bytes;
        return json_array_append_new(to->array, json_pack("{s:s, s:s, s:I}", "path", m->name, "build_id",
                                                          m->build_id, "start", (json_int_t) m->start));
}

static void add_native(struct output *o, const struct capture *c, json_t *v) {
        struct frames to = { o, json_array() };

        if (c->kernel_why[0])
                (void) json_object_set_new(v, "kernel_unknown", json_string(c->kernel_why));
        else
                (void) json_object_set_new(
                        v, "kernel_by", json_string(c->native.kernel_by_proc ? "/proc/TID/stack" : "iter/task"));
        (void) native_modules(&c->native, add_module, &to); /* output_has_room() remembers */
        (void) json_object_set_new(v, "modules", to.array);
}

int json_capture(struct output *o, const struct capture *c) {
        char version[PYTHON_VERSION_MAX];
        json_t *threads = json_array(), *v;
        int r;

        o->bytes += 4096;
        r = add_threads(o, c, threads);
        v = json_pack("{s:i, s:s, s:I, s:o}", "pid", (int) c->process.pid, "command", c->command,
                      "other_threads", (json_int_t) c->other_threads, "threads", threads);
        if (v && c->no_python)
                (void) json_object_set_new(v, "no_python", json_string(c->no_python_why));
        else if (v)
                (void) json_object_set_new(
                        v, "python", json_string(python_version_text(c->interpreter.version, version)));
        if (v && c->native.n > 0)
                add_native(o, c, v);
        return json_array_append_new(o->processes, v) < 0 || r == -ENOMEM ? -ENOMEM : 0;
}

int json_failure(struct output *o, pid_t pid, const char *command, const char *why) {
        json_t *v = json_pack("{s:i, s:s, s:s}", "pid", (int) pid, "command", command, "error", why);

        o->bytes += 4096;
        return json_array_append_new(o->processes, v) < 0 ? -ENOMEM : 0;
}
