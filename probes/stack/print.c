/* SPDX-License-Identifier: Apache-2.0 */
#include "print.h"

#include <stdarg.h>

#define LINE_MAX_BYTES (40u * 1024) /* a frame in text: two names of TEXT_MAX, each byte escaped to four */
#define JSON_FRAME_BYTES 64u        /* a frame's JSON without its names */

int output_init(struct output *o, FILE *file, bool json) {
        *o = (struct output) { .file = file };
        if (json && !(o->processes = json_array()))
                return -ENOMEM;
        return 0;
}

static bool has_room(struct output *o, size_t bytes) {
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

/* Whether each run of the interpreter loop in the native stack has its Python frames, of the same moment. */
static bool native_goes_with(const struct native_thread *n, const struct python_thread *t) {
        size_t runs = 0;

        for (size_t i = 0; i < t->chain.n; i++)
                runs += t->chain.frames[i].entry;
        return !t->error && !t->changed && !t->drifted && !t->chain.cut && runs > 0 &&
               runs == native_evaluations(n);
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

static const char *native_error(int error) {
        return error == -EBUSY   ? "it waits in the kernel and cannot be interrupted"
               : error == -EPERM ? "not permitted, or another debugger has it"
               : error == -ESRCH ? "it has ended"
                                 : "no frame could be told";
}

static void put_kernel(struct output *o, const struct native_thread *n) {
        for (const char *line = n->kernel, *end; (end = strchr(line, '\n')); line = end + 1)
                put(o, "  [kernel] %.*s\n", (int) (end - line), line);
}

/* The Python frames of one run of the interpreter loop, from index on; returns the index behind them. */
static size_t put_run(struct output *o, const struct python_thread *t, size_t index) {
        while (index < t->chain.n) {
                const struct frame *f = &t->chain.frames[index++];

                if (frame_is_shown(f))
                        put_frame(o, f);
                if (f->entry)
                        break;
        }
        return index;
}

/* Native frames; where one runs Python frames, those stand in its place when they are of the same moment. */
static void text_native(struct output *o, const struct native_thread *n, const struct python_thread *t) {
        bool merged = t && native_goes_with(n, t);
        size_t index = 0;

        put_kernel(o, n);
        for (size_t i = 0; i < n->n && has_room(o, 0); i++)
                if (merged && n->frames[i].symbol->evaluates)
                        index = put_run(o, t, index);
                else
                        put_native_frame(o, &n->frames[i]);
        if (n->error)
                put(o, "  (no native stack: %s)\n", native_error(n->error));
        else if (n->cut)
                put(o, "  (more native frames, which cannot be told)\n");
        if (t && !merged && t->chain.n > 0)
                put(o, "  Python, of another moment or not to be matched with the above:\n");
}

static void text_thread(struct output *o, const struct capture *c, const struct python_thread *t) {
        const struct native_thread *n = t->task ? capture_native(c, t->task->tid) : NULL;
        size_t shown = 0;

        put_thread(o, t);
        if (n) {
                text_native(o, n, t);
                if (native_goes_with(n, t))
                        return;
        }
        for (size_t i = 0; i < t->chain.n && !t->error; i++) {
                if (!frame_is_shown(&t->chain.frames[i]))
                        continue;
                if (!has_room(o, 0))
                        return;
                put_frame(o, &t->chain.frames[i]);
                shown++;
        }
        if (t->error)
                put(o, "  (not readable: %s)\n",
                    t->error == -ELOOP ? "the frames form a loop" : "the frames do not make sense");
        else if (t->chain.cut)
                put(o, "  (more frames: only the innermost %zu were read)\n", t->chain.n);
        else if (shown == 0 && t->changed)
                put(o, "  (it ran all the time: no reading made sense)\n");
        else if (shown == 0)
                put(o, "  (no Python frame)\n");
}

static bool runs_python(const struct capture *c, const struct task *task) {
        for (size_t i = 0; i < c->n_threads; i++)
                if (c->threads[i].task == task)
                        return true;
        return false;
}

static void text_other_threads(struct output *o, const struct capture *c) {
        for (size_t i = 0; i < c->native.n && i < c->tasks.n && has_room(o, 0); i++) {
                struct python_thread t = { .task = &c->tasks.items[i] };

                if (runs_python(c, t.task))
                        continue;
                put_thread(o, &t);
                text_native(o, &c->native.threads[i], NULL);
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
        for (size_t i = 0; i < c->n_threads && has_room(o, 0); i++)
                text_thread(o, c, &c->threads[i]);
        if (c->native.n > 0)
                text_other_threads(o, c);
        else if (c->other_threads > 0)
                put(o, "%zu other thread%s of this process run%s no Python\n", c->other_threads,
                    c->other_threads == 1 ? "" : "s", c->other_threads == 1 ? "s" : "");
}

/* Bytes of s in JSON: control characters take six. */
static size_t json_bytes(const char *s) {
        size_t n = 0;

        for (; *s; s++)
                n += (uint8_t) *s < 0x20 ? 6 : *s == '"' || *s == '\\' ? 2 : 1;
        return n;
}

static int json_frames(struct output *o, const struct python_thread *t, json_t *array) {
        for (size_t i = 0; i < t->chain.n && !t->error; i++) {
                const struct frame *f = &t->chain.frames[i];
                const char *file = f->code ? f->code->file : "?",
                           *function = f->code ? f->code->function : "?";
                size_t bytes = JSON_FRAME_BYTES + json_bytes(file) + json_bytes(function);
                int line = f->code ? code_line(f->code, f->instruction) : 0;

                if (!frame_is_shown(f))
                        continue;
                if (!has_room(o, bytes))
                        return 0;
                o->bytes += bytes;
                if (json_array_append_new(array, json_pack("{s:s, s:i, s:s}", "file", file, "line", line,
                                                           "function", function)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static json_t *json_native_frame(const struct native_frame *f) {
        const struct native_symbol *s = f->symbol;
        json_t *v = json_pack("{s:I, s:s, s:I}", "pc", (json_int_t) f->pc, "symbol", s->name ? s->name : "",
                              "offset", (json_int_t) s->offset);

        if (v && s->module)
                (void) json_object_update_new(v, json_pack("{s:s, s:s, s:I}", "module", s->module->name,
                                                           "build_id", s->module->build_id, "address",
                                                           (json_int_t) (f->pc - s->module->start)));
        return v;
}

/* "python": how many of "frames" stand in this one's place. */
static json_t *json_native(struct output *o, const struct native_thread *n, const struct python_thread *t) {
        bool merged = t && native_goes_with(n, t);
        json_t *frames = json_array(), *v;
        size_t index = 0;

        for (size_t i = 0; i < n->n && has_room(o, 512); i++) {
                json_t *f = json_native_frame(&n->frames[i]);
                size_t shown = 0;

                o->bytes += 512;
                while (merged && n->frames[i].symbol->evaluates && index < t->chain.n) {
                        shown += frame_is_shown(&t->chain.frames[index]);
                        if (t->chain.frames[index++].entry)
                                break;
                }
                if (merged && n->frames[i].symbol->evaluates)
                        (void) json_object_set_new(f, "python", json_integer((json_int_t) shown));
                (void) json_array_append_new(frames, f);
        }
        v = json_pack("{s:o, s:b, s:b, s:I, s:s}", "frames", frames, "cut", n->cut, "merged", merged,
                      "pause_ns", (json_int_t) n->pause_ns, "kernel", n->kernel);
        if (v && n->error)
                (void) json_object_set_new(v, "error", json_string(native_error(n->error)));
        return v;
}

static void json_task(json_t *v, const struct task *task) {
        char state[2] = { task->state, '\0' };

        (void) json_object_update_new(
                v, json_pack("{s:i, s:s, s:s}", "tid", (int) task->tid, "name", task->name, "state", state));
        if (task->wait[0])
                (void) json_object_set_new(v, "wait", json_string(task->wait));
        if (task->call[0])
                (void) json_object_set_new(v, "call", json_string(task->call));
}

static json_t *json_thread(struct output *o, const struct python_thread *t) {
        json_t *frames = json_array(), *v;
        const struct task *task = t->task;

        o->bytes += 1024; /* more than a thread without its frames takes */
        if (!frames || json_frames(o, t, frames) < 0) {
                json_decref(frames);
                return NULL;
        }
        v = json_pack("{s:I, s:b, s:b, s:b, s:o}", "interpreter", (json_int_t) t->id.interpreter, "gil",
                      t->gil, "changed", t->changed, "frames_cut", t->chain.cut || o->cut, "frames", frames);
        if (v && t->error)
                (void) json_object_set_new(v, "error",
                                           json_string(t->error == -ELOOP ? "loop" : "malformed"));
        if (v && task)
                json_task(v, task);
        return v;
}

static void json_add_thread(struct output *o, const struct capture *c, const struct python_thread *t,
                            json_t *to) {
        const struct native_thread *n = t->task ? capture_native(c, t->task->tid) : NULL;
        json_t *v = json_thread(o, t);

        if (v && n)
                (void) json_object_set_new(v, "native", json_native(o, n, t));
        (void) json_array_append_new(to, v);
}

/* Threads that run no Python are there when their native stacks are. */
static void json_other_threads(struct output *o, const struct capture *c, json_t *to) {
        for (size_t i = 0; i < c->native.n && i < c->tasks.n && has_room(o, 1024); i++) {
                json_t *v;

                if (runs_python(c, &c->tasks.items[i]))
                        continue;
                v = json_pack("{s:o}", "native", json_native(o, &c->native.threads[i], NULL));
                if (v)
                        json_task(v, &c->tasks.items[i]);
                o->bytes += 1024;
                (void) json_array_append_new(to, v);
        }
}

static int json_capture(struct output *o, const struct capture *c) {
        char version[PYTHON_VERSION_MAX];
        json_t *threads = json_array(), *others = json_array(), *v;

        o->bytes += 4096;
        for (size_t i = 0; i < c->n_threads && has_room(o, 0); i++)
                json_add_thread(o, c, &c->threads[i], threads);
        json_other_threads(o, c, others);
        v = json_pack("{s:i, s:s, s:I, s:o}", "pid", (int) c->process.pid, "command", c->command,
                      "other_threads", (json_int_t) c->other_threads, "threads", threads);
        if (v && c->no_python)
                (void) json_object_set_new(v, "no_python", json_string(c->no_python_why));
        else if (v)
                (void) json_object_set_new(
                        v, "python", json_string(python_version_text(c->interpreter.version, version)));
        if (v && c->native.n > 0)
                (void) json_object_set(v, "native_threads", others);
        json_decref(others);
        return json_array_append_new(o->processes, v) < 0 ? -ENOMEM : 0;
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
        json_t *v;

        if (!o->processes || o->cut)
                return 0;
        o->bytes += 4096;
        v = json_pack("{s:i, s:s, s:s}", "pid", (int) pid, "command", command, "error", why);
        return json_array_append_new(o->processes, v) < 0 ? -ENOMEM : 0;
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
