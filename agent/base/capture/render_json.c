/* SPDX-License-Identifier: Apache-2.0 */
#include "render.h"

#define FRAME_BYTES  160u  /* a frame's JSON without its names */
#define THREAD_BYTES 1024u /* more than a thread without its frames takes */

/* Room for s in JSON, at most: control characters take six bytes. */
static size_t json_bytes(const char *s) {
        return 6 * strlen(s);
}

/* key: with its quotes, colon and the comma before it. */
static void put_text(struct text_sink *s, const char *key, const char *text) {
        sink_text(s, key);
        sink_json(s, text, strlen(text));
}

static void put_number(struct text_sink *s, const char *key, int64_t n) {
        sink_text(s, key);
        sink_number(s, n);
}

static void put_bool(struct text_sink *s, const char *key, bool v) {
        sink_text(s, key);
        sink_text(s, v ? "true" : "false");
}

/* Nothing when it is not known. */
static void put_known(struct text_sink *s, const struct stack_table *t, const char *key, uint32_t string) {
        if (string)
                put_text(s, key, stack_table_text(t, string));
}

static void put_locals(struct text_sink *s, const struct host_capture *c, const struct stack_table *t,
                       const struct thread_detail *d, uint32_t frame) {
        bool any = false;

        for (uint32_t i = d->first_local; i < d->first_local + d->n_locals; i++) {
                const char *name = stack_table_text(t, c->locals[i].name);

                if (c->locals[i].frame != frame)
                        continue;
                sink_text(s, any ? "," : ",\"locals\":{");
                sink_json(s, name, strlen(name));
                put_text(s, ":", stack_table_text(t, c->locals[i].value));
                any = true;
        }
        if (any)
                sink_text(s, "}");
}

/* "function" is "" when it has no name; "address" then tells it: it is the same wherever the file is mapped.
 */
static void put_native(struct text_sink *to, const struct stack_frame *f, const char *module,
                       const char *function) {
        put_text(to, "{\"kind\":\"native\",\"function\":", function);
        put_number(to, ",\"offset\":", f->line);
        if (*module) {
                put_text(to, ",\"module\":", module);
                put_number(to, ",\"address\":", (int64_t) f->address);
        } else
                put_number(to, ",\"pc\":", (int64_t) f->address);
}

static void put_frame(struct text_sink *s, const struct stack_table *t, const struct stack_frame *f) {
        const char *file = stack_table_text(t, f->file), *function = stack_table_text(t, f->function);

        switch (f->kind) {
        case FRAME_KERNEL:
                put_text(s, "{\"kind\":\"kernel\",\"function\":", function);
                put_number(s, ",\"offset\":", f->line);
                break;
        case FRAME_NATIVE:
                put_native(s, f, file, function);
                break;
        default: /* Python */
                put_text(s, "{\"file\":", file);
                put_number(s, ",\"line\":", f->line);
                put_text(s, ",\"function\":", function);
        }
}

static size_t frame_bytes(const struct host_capture *c, const struct stack_table *t,
                          const struct thread_detail *d, const struct stack_frame *f, uint32_t frame) {
        size_t n = FRAME_BYTES + json_bytes(stack_table_text(t, f->file)) +
                   json_bytes(stack_table_text(t, f->function));

        for (uint32_t i = d->first_local; i < d->first_local + d->n_locals; i++)
                if (c->locals[i].frame == frame)
                        n += FRAME_BYTES + json_bytes(stack_table_text(t, c->locals[i].name)) +
                             json_bytes(stack_table_text(t, c->locals[i].value));
        return n;
}

static void put_frames(struct render *o, const struct host_capture *c, const struct stack_table *t,
                       size_t index) {
        const struct captured_thread *th = &c->threads[index];
        const struct thread_detail *d = &c->details[index];
        const uint32_t *frames = th->stack == STACK_NONE ? NULL : stack_table_frames(t, th->stack);
        uint32_t n = frames ? t->stacks[th->stack].n : 0;

        sink_text(&o->sink, "\"frames\":[");
        for (uint32_t i = 0; i < n; i++) { /* innermost first */
                const struct stack_frame *f = &t->frames[frames[n - 1 - i]];

                if (!render_has_room(o, frame_bytes(c, t, d, f, i)))
                        break;
                sink_text(&o->sink, i > 0 ? "," : "");
                put_frame(&o->sink, t, f);
                put_locals(&o->sink, c, t, d, i);
                sink_text(&o->sink, "}");
        }
        sink_text(&o->sink, "]");
}

static void put_native_detail(struct text_sink *s, const struct stack_table *t,
                              const struct thread_detail *d) {
        put_bool(s, ",\"native\":{\"merged\":", d->merged);
        put_bool(s, ",\"cut\":", d->native_cut);
        put_number(s, ",\"pause_ns\":", (int64_t) d->pause_ns);
        put_known(s, t, ",\"error\":", d->native_error);
        sink_text(s, "}");
}

static void put_thread(struct render *o, const struct host_capture *c, const struct stack_table *t,
                       size_t index) {
        const struct captured_thread *th = &c->threads[index];
        const struct thread_detail *d = &c->details[index];
        struct text_sink *s = &o->sink;

        put_frames(o, c, t, index);
        put_bool(s, ",\"frames_cut\":", o->cut || d->python_cut || d->native_cut);
        if (d->python) {
                put_number(s, ",\"interpreter\":", d->interpreter);
                put_bool(s, ",\"gil\":", th->gil);
                put_bool(s, ",\"changed\":", th->changed);
                put_known(s, t, ",\"error\":", d->python_error);
        }
        if (d->native)
                put_native_detail(s, t, d);
        if (th->tid == 0)
                return;
        put_number(s, ",\"tid\":", th->tid);
        put_text(s, ",\"name\":", stack_table_text(t, th->name));
        put_text(s, ",\"state\":", (char[]){ th->state, '\0' });
        put_known(s, t, ",\"wait\":", th->wait);
        put_known(s, t, ",\"syscall\":", th->syscall);
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
                put_text(s, i > 0 ? ",{\"path\":" : "{\"path\":", path);
                put_text(s, ",\"build_id\":", stack_table_text(t, m->build_id));
                put_number(s, ",\"start\":", (int64_t) m->start);
                sink_text(s, "}");
        }
        sink_text(s, "]");
}

void render_json_process(struct render *o, const struct host_capture *c, const struct stack_table *t,
                         const struct captured_process *p) {
        struct text_sink *s = &o->sink;

        put_number(s, o->processes > 0 ? ",{\"pid\":" : "{\"pid\":", p->pid);
        put_text(s, ",\"command\":", stack_table_text(t, p->command));
        put_known(s, t, ",\"error\":", p->error);
        if (!p->error) {
                put_known(s, t, ",\"no_python\":", p->no_python);
                put_known(s, t, ",\"python\":", p->python);
                put_number(s, ",\"other_threads\":", p->other_threads);
                sink_text(s, ",\"threads\":[");
                for (uint32_t i = 0; i < p->n_threads && render_has_room(o, THREAD_BYTES); i++) {
                        sink_text(s, i > 0 ? ",{" : "{");
                        put_thread(o, c, t, p->first_thread + i);
                        sink_text(s, "}");
                }
                sink_text(s, "]");
                if (p->kernel_by || p->kernel_unknown)
                        put_modules(o, c, t, p);
        }
        sink_text(s, "}");
}
