/* SPDX-License-Identifier: Apache-2.0 */
#include "render.h"

#include <assert.h>

#include "render_waits.h"

#define LINE_BYTES (40u * 1024) /* a frame in text: two strings, each byte escaped to four */

/* Where the sink must be at most when something has been put. */
static uint64_t render_limit(const struct render *o) {
        return o->max - MIN(o->max / 2, (size_t) LINE_BYTES);
}

/* Whether so many bytes more may be put; if not, sets cut. */
static bool render_has_room(struct render *o, size_t bytes) {
        if (o->sink.put + bytes > render_limit(o))
                o->cut = true;
        return !o->cut;
}

/* --- JSON --------------------------------------------------------------------------------------------- */

#define FRAME_BYTES  160u  /* a frame's JSON without its names */
#define THREAD_BYTES 1024u /* more than a thread without its frames takes */

/* Room for s in JSON, at most: control characters take six bytes. */
static size_t json_bytes(const char *s) {
        return 6 * strlen(s);
}

static void put_bool(struct text_sink *s, const char *key, bool v) {
        sink_text(s, key);
        sink_text(s, v ? "true" : "false");
}

/* Nothing when it is not known. */
static void put_known(struct text_sink *s, const struct stack_table *t, const char *key, uint32_t string) {
        if (string)
                sink_text_member(s, key, stack_table_text(t, string));
}

/* "function" is "" when it has no name; "address" then tells it: it is the same wherever the file is mapped.
 */
static void put_json_native(struct text_sink *to, const struct stack_frame *f, const char *module,
                       const char *function) {
        sink_text_member(to, "{\"kind\":\"native\",\"function\":", function);
        sink_number_member(to, ",\"offset\":", f->line);
        if (*module) {
                sink_text_member(to, ",\"module\":", module);
                sink_number_member(to, ",\"address\":", (int64_t) f->address);
        } else
                sink_number_member(to, ",\"pc\":", (int64_t) f->address);
}

static void put_json_frame(struct text_sink *s, const struct stack_table *t, const struct stack_frame *f) {
        const char *file = stack_table_text(t, f->file), *function = stack_table_text(t, f->function);

        switch (f->kind) {
        case FRAME_KERNEL:
                sink_text_member(s, "{\"kind\":\"kernel\",\"function\":", function);
                sink_number_member(s, ",\"offset\":", f->line);
                break;
        case FRAME_NATIVE:
                put_json_native(s, f, file, function);
                break;
        default: /* Python */
                sink_text_member(s, "{\"file\":", file);
                sink_number_member(s, ",\"line\":", f->line);
                sink_text_member(s, ",\"function\":", function);
        }
}

static size_t frame_bytes(const struct stack_table *t, const struct stack_frame *f) {
        return FRAME_BYTES + json_bytes(stack_table_text(t, f->file)) +
               json_bytes(stack_table_text(t, f->function));
}

static void put_frames(struct render *o, const struct host_capture *c, const struct stack_table *t,
                       size_t index) {
        const struct captured_thread *th = &c->threads[index];
        const uint32_t *frames = th->stack == STACK_NONE ? NULL : stack_table_frames(t, th->stack);
        uint32_t n = frames ? t->stacks[th->stack].n : 0;

        sink_text(&o->sink, "\"frames\":[");
        for (uint32_t i = 0; i < n; i++) { /* innermost first */
                const struct stack_frame *f = &t->frames[frames[n - 1 - i]];

                if (!render_has_room(o, frame_bytes(t, f)))
                        break;
                sink_text(&o->sink, i > 0 ? "," : "");
                put_json_frame(&o->sink, t, f);
                sink_text(&o->sink, "}");
        }
        sink_text(&o->sink, "]");
}

static void put_native_detail(struct text_sink *s, const struct stack_table *t,
                              const struct thread_detail *d) {
        put_bool(s, ",\"native\":{\"merged\":", d->merged);
        put_bool(s, ",\"cut\":", d->native_cut);
        sink_number_member(s, ",\"pause_ns\":", (int64_t) d->pause_ns);
        put_known(s, t, ",\"error\":", d->native_error);
        sink_text(s, "}");
}

static void put_json_thread(struct render *o, const struct host_capture *c, const struct stack_table *t,
                            const struct captured_process *p, size_t index) {
        const struct captured_thread *th = &c->threads[index];
        const struct thread_detail *d = &c->details[index];
        struct text_sink *s = &o->sink;

        put_frames(o, c, t, index);
        put_bool(s, ",\"frames_cut\":", o->cut || d->python_cut || d->native_cut);
        if (d->python) {
                sink_number_member(s, ",\"interpreter\":", d->interpreter);
                put_bool(s, ",\"gil\":", th->gil);
                put_bool(s, ",\"changed\":", th->changed);
                put_known(s, t, ",\"error\":", d->python_error);
        }
        if (d->native)
                put_native_detail(s, t, d);
        if (th->tid == 0)
                return;
        sink_number_member(s, ",\"tid\":", th->tid);
        sink_text_member(s, ",\"name\":", stack_table_text(t, th->name));
        sink_text_member(s, ",\"state\":", (char[]){ th->state, '\0' });
        if (th->cpu_usec > 0)
                sink_number_member(s, ",\"cpu_usec\":", (int64_t) th->cpu_usec);
        put_known(s, t, ",\"wait\":", th->wait);
        put_known(s, t, ",\"syscall\":", th->syscall);
        o->cut |= !render_thread_waits(s, c, t, p, th, true, render_limit(o));
}

static void put_modules(struct render *o, const struct host_capture *c, const struct stack_table *t,
                        const struct captured_process *p) {
        struct text_sink *s = &o->sink;

        put_known(s, t, ",\"kernel_unknown\":", p->kernel_unknown);
        put_known(s, t, ",\"kernel_by\":", p->kernel_by);
        sink_text(s, ",\"modules\":[");
        for (uint32_t i = 0; i < p->n_modules; i++) {
                const struct captured_module *m = &c->modules[p->first_module + i];
                const char *path = stack_table_text(t, m->path);

                if (!render_has_room(o, FRAME_BYTES + json_bytes(path)))
                        break;
                sink_text_member(s, i > 0 ? ",{\"path\":" : "{\"path\":", path);
                sink_text_member(s, ",\"build_id\":", stack_table_text(t, m->build_id));
                sink_number_member(s, ",\"start\":", (int64_t) m->start);
                sink_text(s, "}");
        }
        sink_text(s, "]");
}

static void put_json_process(struct render *o, const struct host_capture *c, const struct stack_table *t,
                         const struct captured_process *p) {
        struct text_sink *s = &o->sink;

        sink_number_member(s, o->processes > 0 ? ",{\"pid\":" : "{\"pid\":", p->pid);
        sink_text_member(s, ",\"command\":", stack_table_text(t, p->command));
        put_known(s, t, ",\"error\":", p->error);
        if (!p->error) {
                put_known(s, t, ",\"no_python\":", p->no_python);
                put_known(s, t, ",\"python\":", p->python);
                sink_number_member(s, ",\"other_threads\":", p->other_threads);
                o->cut |= !render_process_waits(s, c, t, p, true, render_limit(o));
                sink_text(s, ",\"threads\":[");
                for (uint32_t i = 0; i < p->n_threads && render_has_room(o, THREAD_BYTES); i++) {
                        sink_text(s, i > 0 ? ",{" : "{");
                        put_json_thread(o, c, t, p, p->first_thread + i);
                        sink_text(s, "}");
                }
                sink_text(s, "]");
                if (p->kernel_by || p->kernel_unknown)
                        put_modules(o, c, t, p);
        }
        sink_text(s, "}");
}

/* --- Text ---------------------------------------------------------------------------------------------- */

static const char *state_words(char state) {
        switch (state) {
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
static void put_wait(struct text_sink *s, const char *call, const char *wait) {
        if (*call && *wait)
                sink_format(s, " in %s (%s)", call, wait);
        else if (*call || *wait)
                sink_format(s, " in %s", *call ? call : wait);
}

static void put_thread(struct text_sink *s, const struct stack_table *t, const struct captured_thread *th,
                       const struct thread_detail *d) {
        if (th->tid > 0)
                sink_format(s, "thread %ld \"%s\"", (long) th->tid, stack_table_text(t, th->name));
        else
                sink_text(s, "thread ?");
        if (th->gil)
                sink_text(s, " [gil]");
        if (d->interpreter != 0)
                sink_format(s, " [interpreter %ld]", (long) d->interpreter);
        if (th->changed)
                sink_text(s, " [changed while read]");
        if (th->tid > 0)
                sink_format(s, " %s", state_words(th->state));
        if (th->tid > 0 && th->state != 'T' && th->state != 't')
                put_wait(s, stack_table_text(t, th->syscall), stack_table_text(t, th->wait));
        sink_text(s, "\n");
}

static void put_python(struct text_sink *s, const char *file, uint32_t line, const char *function) {
        if (line > 0)
                sink_format(s, "  File \"%s\", line %ld, in %s\n", file, (long) line, function);
        else
                sink_format(s, "  File \"%s\", line ?, in %s\n", file, function);
}

static void put_native(struct text_sink *s, const struct stack_frame *f, const char *module,
                       const char *function) {
        const char *slash = strrchr(module, '/');

        module = slash ? slash + 1 : module;
        if (*function)
                sink_format(s, "  %s+0x%lx", function, (unsigned long) f->line);
        else
                sink_format(s, "  0x%lx", (unsigned long) f->address);
        if (*module)
                sink_format(s, " (%s)", module);
        sink_text(s, "\n");
}

/* "  NAME+0x1 (MODULE)", "  [kernel] NAME+0x1", "  File …". */
static void put_frame(struct text_sink *s, const struct stack_table *t, const struct stack_frame *f) {
        const char *file = stack_table_text(t, f->file), *function = stack_table_text(t, f->function);

        if (f->kind == FRAME_KERNEL)
                sink_format(s, "  [kernel] %s+0x%lx\n", function, (unsigned long) f->line);
        else if (f->kind == FRAME_NATIVE)
                put_native(s, f, file, function);
        else
                put_python(s, file, f->line, function);
}

static void put_native_end(struct text_sink *s, const struct stack_table *t, const struct thread_detail *d) {
        if (d->native_error)
                sink_format(s, "  (no native stack: %s)\n", stack_table_text(t, d->native_error));
        else if (d->native && d->native_cut)
                sink_text(s, "  (more native frames, which are not known)\n");
}

static void put_python_end(struct text_sink *s, const struct stack_table *t,
                           const struct captured_thread *th, const struct thread_detail *d, size_t shown) {
        if (d->python_error)
                sink_format(s, "  (not readable: %s)\n",
                            streq(stack_table_text(t, d->python_error), "loop")
                                    ? "the frames form a loop"
                                    : "the frames do not make sense");
        else if (d->python_cut)
                sink_format(s, "  (more frames: only the innermost %ld were read)\n", (long) shown);
        else if (shown == 0 && th->changed)
                sink_text(s, "  (it ran all the time: no reading made sense)\n");
        else if (shown == 0)
                sink_text(s, "  (no Python frame)\n");
}

static void text_thread(struct render *o, const struct host_capture *c, const struct stack_table *t,
                        const struct captured_process *p, size_t index) {
        const struct captured_thread *th = &c->threads[index];
        const struct thread_detail *d = &c->details[index];
        const uint32_t *frames = th->stack == STACK_NONE ? NULL : stack_table_frames(t, th->stack);
        uint32_t n = frames ? t->stacks[th->stack].n : 0;
        bool apart = d->native && d->python && !d->merged; /* Python frames stand behind the native ones */
        size_t shown = 0;

        put_thread(&o->sink, t, th, d);
        o->cut |= !render_thread_waits(&o->sink, c, t, p, th, false, render_limit(o));
        for (uint32_t i = 0; i < n && render_has_room(o, 0); i++) { /* innermost first */
                const struct stack_frame *f = &t->frames[frames[n - 1 - i]];

                if (f->kind == FRAME_PYTHON && shown++ == 0 && apart) {
                        put_native_end(&o->sink, t, d);
                        sink_text(&o->sink,
                                  "  Python, of another moment or not to be matched with the above:\n");
                }
                put_frame(&o->sink, t, f);
        }
        if (!apart || shown == 0)
                put_native_end(&o->sink, t, d);
        if (d->python && !d->merged)
                put_python_end(&o->sink, t, th, d, shown);
}

static void put_head(struct text_sink *s, const struct stack_table *t, const struct captured_process *p) {
        sink_format(s, "process %ld %s", (long) p->pid, stack_table_text(t, p->command));
        if (p->no_python)
                sink_format(s, p->kernel_by || p->kernel_unknown ? " (native stacks only: %s)\n" : " (%s)\n",
                            stack_table_text(t, p->no_python));
        else
                sink_format(s, " (CPython %s)\n", stack_table_text(t, p->python));
        if (p->kernel_unknown)
                sink_format(s, "kernel stacks: UNKNOWN: %s\n", stack_table_text(t, p->kernel_unknown));
}

/* Threads that run no Python, and of which there is nothing but that they rest, are only counted. */
static bool is_shown(const struct host_capture *c, const struct captured_process *p, size_t index) {
        const struct captured_thread *th = &c->threads[index];
        const struct thread_detail *d = &c->details[index];

        if (d->python || d->native || p->no_python || th->tid == 0)
                return true;
        for (uint32_t i = 0; i < th->n_waits; i++) {
                const struct captured_wait *w = &c->waits[th->first_wait + i];

                if (w->kind != WAIT_TIMER && (w->kind != WAIT_LOCK || w->holder_tid != 0))
                        return true;
        }
        return false;
}

static void text_process(struct render *o, const struct host_capture *c, const struct stack_table *t,
                         const struct captured_process *p) {
        bool native = p->kernel_by || p->kernel_unknown;

        if (p->error) {
                if (o->errors)
                        sink_format(&o->sink, "process %ld %s: %s\n", (long) p->pid,
                                    stack_table_text(t, p->command), stack_table_text(t, p->error));
                return;
        }
        put_head(&o->sink, t, p);
        for (uint32_t i = 0; i < p->n_threads && render_has_room(o, 0); i++)
                if (is_shown(c, p, p->first_thread + i))
                        text_thread(o, c, t, p, p->first_thread + i);
        if (!native && !p->no_python && p->other_threads > 0)
                sink_format(&o->sink,
                            p->other_threads == 1 ? "%ld other thread of this process runs no Python\n"
                                                  : "%ld other threads of this process run no Python\n",
                            (long) p->other_threads);
        o->cut |= !render_process_waits(&o->sink, c, t, p, false, render_limit(o));
}

void render_begin(struct render *o, FILE *file, bool json, size_t max) {
        *o = (struct render){ .json = json, .max = max, .sink = { .file = file } };
        if (json)
                sink_text(&o->sink, "{\"version\":1,\"processes\":[");
}

void render_capture(struct render *o, const struct host_capture *c, const struct stack_table *t) {
        assert(c->detailed);
        for (size_t i = 0; i < c->n_processes && render_has_room(o, 0); i++) {
                if (o->json)
                        put_json_process(o, c, t, &c->processes[i]);
                else
                        text_process(o, c, t, &c->processes[i]);
                o->processes++;
        }
        o->was_cut |= c->cut;
        if (c->n_ends == 0)
                return;
        sink_text(&o->sink, o->json ? "],\"ends\":[" : "");
        o->cut |= !render_ends(&o->sink, c, t, o->json, render_limit(o));
}

int render_end(struct render *o) {
        if (o->json)
                sink_text(&o->sink, o->cut || o->was_cut ? "],\"cut\":true}\n" : "],\"cut\":false}\n");
        else if (o->was_cut)
                sink_text(&o->sink, "(not all is here: a capture holds no more)\n");
        else if (o->cut)
                sink_format(&o->sink, "(output ends here: more than %ld bytes)\n", (long) o->max);
        return sink_flush(&o->sink);
}

int render_text(const struct host_capture *c, const struct stack_table *t, size_t max, char **ret) {
        struct render o;
        char *text = NULL;
        size_t len = 0;
        FILE *f = open_memstream(&text, &len);
        int r = -ENOMEM;

        if (f) {
                render_begin(&o, f, false, max);
                o.errors = true;
                render_capture(&o, c, t);
                r = render_end(&o);
                if (!memstream_close(f, &text) || r < 0)
                        r = -ENOMEM;
        }
        if (r < 0)
                free(text);
        else
                *ret = text;
        return r;
}
