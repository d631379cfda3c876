/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_read.h"

#include "capture.pb-c.h"
#include "grow.h"
#include "gzip.h"
#include "unpack.h"
#include "utf8.h"

/* --- Strings, frames and stacks of a part ------------------------------------------------------------- */

enum frame_class { FRAME_OTHERS, FRAME_OF_PYTHON, FRAME_OF_INTERPRETER };

/* Says which part and field is wrong (NULL: the part itself). Returns error. */
static int capture_wrong(struct capture_reader *r, int error, const char *field, const char *why) {
        if (r->part == 0)
                (void) snprintf(r->why, CAPTURE_WHY_MAX, "%s%s%s", field ? field : "", field ? ": " : "",
                                why);
        else
                (void) snprintf(r->why, CAPTURE_WHY_MAX, "part %zu%s%s: %s", r->part, field ? ", " : "",
                                field ? field : "", why);
        return error;
}

static int note_number(struct capture_numbers *l, uint32_t number) {
        int r = grow(&l->items, &l->size, l->n + 1, sizeof(*l->items));

        if (r == 0)
                l->items[l->n++] = number;
        return r;
}

static bool capture_string_of(const struct capture_reader *r, uint32_t number, uint32_t *ret) {
        if (number >= MAX(r->strings.n, (size_t) 1))
                return false;
        *ret = r->strings.n > 0 ? r->strings.items[number] : 0;
        return true;
}

/* What is there already was clean when it came first. */
static int capture_text_of(struct capture_reader *r, const char *text, uint32_t *ret) {
        size_t len = MIN(strlen(text), (size_t) STACK_TEXT_MAX);
        char clean[STACK_TEXT_MAX];

        if (stack_table_find(r->t, text, len, ret))
                return 0;
        memcpy(clean, text, len);
        (void) utf8_scrub(clean, len);
        return stack_table_string(r->t, clean, len, ret);
}

/* --- Frames -------------------------------------------------------------------------------------------- */

/* The file's name without its directories: those may differ from host to host. A function without a name is
 * named by its address. */
static int make_alike(struct capture_reader *r, struct stack_frame *f) {
        const char *module = stack_table_text(r->t, f->file), *slash = strrchr(module, '/');
        char text[STACK_TEXT_MAX];
        int k = 0, n;

        if (slash) { /* a copy: the table's text may move */
                n = snprintf(text, sizeof(text), "%s", slash + 1);
                k = stack_table_string(r->t, text, (size_t) n, &f->file);
        }
        if (k == 0 && f->function == 0) {
                n = snprintf(text, sizeof(text), "0x%" PRIx64, f->address);
                k = stack_table_string(r->t, text, (size_t) n, &f->function);
        }
        f->address = 0;
        return k;
}

static enum frame_class class_of(const struct capture_reader *r, const struct stack_frame *f) {
        const char *module = stack_table_text(r->t, f->file);

        if (f->kind == FRAME_PYTHON)
                return FRAME_OF_PYTHON;
        return f->kind == FRAME_NATIVE && (startswith(module, "python3") || startswith(module, "libpython3"))
                       ? FRAME_OF_INTERPRETER
                       : FRAME_OTHERS;
}

static int keep_frame(struct capture_reader *r, struct stack_frame *f) {
        enum frame_class class = FRAME_OTHERS;
        uint32_t number;
        int k = 0;

        if (r->detail == CAPTURE_DIAGNOSED) {
                if (f->kind != FRAME_PYTHON)
                        f->line = 0;
                if (f->kind == FRAME_NATIVE)
                        k = make_alike(r, f);
                class = class_of(r, f);
        }
        if (k == 0)
                k = stack_table_frame(r->t, f, &number);
        if (k == 0)
                k = grow(&r->kinds, &r->kinds_size, r->frames.n + 1, 1);
        if (k < 0)
                return k;
        r->kinds[r->frames.n] = (uint8_t) class;
        return note_number(&r->frames, number);
}

static int add_frame(struct capture_reader *r, const Capture__Frame *m) {
        struct stack_frame f = { .kind = m->kind, .line = m->line, .address = m->address };
        int k;

        if (f.kind >= _FRAME_KIND_MAX || !capture_string_of(r, m->file, &f.file) ||
            !capture_string_of(r, m->function, &f.function))
                return capture_wrong(r, -EPROTO, "frames", "a number that is none");
        k = keep_frame(r, &f);
        return k < 0 ? capture_wrong(r, k, "frames", strerror(-k)) : 0;
}

/* --- Stacks -------------------------------------------------------------------------------------------- */

/*
 * Native frames of the interpreter itself say nothing beside the Python frames that it ran, and differ from
 * build to build. frames: numbers of the stream, innermost first. Where Python frames were not put in their
 * places they stand behind the native ones; then all native frames from the interpreter's innermost on are
 * left out.
 */
static size_t drop_interpreter(const uint8_t *kinds, uint32_t *frames, size_t n) {
        size_t first = n, last = 0, kept = 0;
        bool inside = false;

        for (size_t i = 0; i < n; i++)
                if (kinds[frames[i]] == FRAME_OF_PYTHON) {
                        first = MIN(first, i);
                        last = i;
                }
        if (first == n)
                return n;
        for (size_t i = 0; i < n; i++) {
                bool own = kinds[frames[i]] == FRAME_OF_INTERPRETER;

                inside = i < first && (inside || (own && last + 1 == n));
                if (!own && !inside)
                        frames[kept++] = frames[i];
        }
        return kept;
}

/* Innermost first in the stream, outermost first in the table. */
static int add_stack(struct capture_reader *r, const Capture__Stack *m) {
        uint32_t frames[STACK_FRAMES_MAX], number;
        size_t n = m->n_frames;
        int k;

        if (n > STACK_FRAMES_MAX)
                return capture_wrong(r, -EPROTO, "stacks", "more frames than a stack has");
        for (size_t i = 0; i < n; i++) {
                if (m->frames[i] >= r->frames.n)
                        return capture_wrong(r, -EPROTO, "stacks", "a number that is none");
                frames[i] = m->frames[i];
        }
        n = drop_interpreter(r->kinds, frames, n);
        for (size_t i = 0; i < n / 2; i++) {
                uint32_t frame = frames[i];

                frames[i] = frames[n - 1 - i];
                frames[n - 1 - i] = frame;
        }
        for (size_t i = 0; i < n; i++)
                frames[i] = r->frames.items[frames[i]];
        k = stack_table_stack(r->t, frames, n, &number);
        if (k == 0)
                k = note_number(&r->stacks, number);
        return k < 0 ? capture_wrong(r, k, "stacks", strerror(-k)) : 0;
}

static int capture_part_stacks(struct capture_reader *r, const Capture__Part *m) {
        int k = 0;

        for (size_t i = 0; i < m->n_strings && k == 0; i++) {
                uint32_t number;

                k = capture_text_of(r, m->strings[i], &number);
                if (k == 0)
                        k = note_number(&r->strings, number);
                if (k < 0)
                        return capture_wrong(r, k, "strings", strerror(-k));
        }
        for (size_t i = 0; i < m->n_frames && k == 0; i++)
                k = add_frame(r, m->frames[i]);
        for (size_t i = 0; i < m->n_stacks && k == 0; i++)
                k = add_stack(r, m->stacks[i]);
        return k;
}

/* --- Processes, threads and the host ------------------------------------------------------------------ */

static char state_letter(uint32_t state) {
        return state > ' ' && state < 0x7F ? (char) state : 0;
}

static int wrong_number(struct capture_reader *r, const char *field) {
        return capture_wrong(r, -EPROTO, field, "a number that is none");
}

/* A failed addition: there are too many of them, or no memory. */
static int not_added(struct capture_reader *r, int error, const char *field) {
        return capture_wrong(r, error, field, error == -E2BIG ? "more than there can be" : strerror(-error));
}

/* --- Processes and threads ------------------------------------------------------------------------------
 */

static int add_module(struct capture_reader *r, const Capture__Module *m) {
        struct captured_module module = { .start = m->start };
        int k;

        if (!capture_string_of(r, m->path, &module.path) ||
            !capture_string_of(r, m->build_id, &module.build_id))
                return wrong_number(r, "process, modules");
        k = r->detail == CAPTURE_DIAGNOSED ? 0 : host_capture_add_module(r->c, &module);
        return k < 0 ? not_added(r, k, "process, modules") : 0;
}

static int add_process(struct capture_reader *r, const Capture__Process *m) {
        struct captured_process *p;
        int k = host_capture_add_process(r->c, &p);

        if (k < 0)
                return not_added(r, k, "process");
        if (!capture_string_of(r, m->command, &p->command) || !capture_string_of(r, m->error, &p->error) ||
            !capture_string_of(r, m->python, &p->python) ||
            !capture_string_of(r, m->no_python, &p->no_python) ||
            !capture_string_of(r, m->kernel_by, &p->kernel_by) ||
            !capture_string_of(r, m->kernel_unknown, &p->kernel_unknown))
                return wrong_number(r, "process");
        p->pid = m->pid;
        p->rank = m->rank_plus_1 - 1;
        p->state = state_letter(m->state);
        p->other_threads = m->other_threads;
        for (size_t i = 0; i < m->n_modules && k == 0; i++)
                k = add_module(r, m->modules[i]);
        return k;
}

static int add_detail(struct capture_reader *r, const Capture__Thread *m, struct thread_detail *d) {
        d->python = m->python;
        d->interpreter = m->interpreter;
        d->python_cut = m->python_cut;
        d->native = m->n_native > 0;
        if (d->native) {
                d->merged = m->native[0]->merged;
                d->native_cut = m->native[0]->cut;
                d->pause_ns = m->native[0]->pause_ns;
        }
        return capture_string_of(r, m->python_error, &d->python_error) &&
                               (!d->native || capture_string_of(r, m->native[0]->error, &d->native_error))
                       ? 0
                       : wrong_number(r, "threads");
}

static int add_thread(struct capture_reader *r, const Capture__Thread *m) {
        struct captured_thread *t;
        int k = host_capture_add_thread(r->c, &t);

        if (k == -EINVAL)
                return capture_wrong(r, -EPROTO, "threads", "of no process");
        if (k < 0)
                return not_added(r, k, "threads");
        if (m->stack_plus_1 > r->stacks.n || !capture_string_of(r, m->name, &t->name) ||
            !capture_string_of(r, m->wait, &t->wait) || !capture_string_of(r, m->syscall, &t->syscall))
                return wrong_number(r, "threads");
        t->stack = m->stack_plus_1 > 0 ? r->stacks.items[m->stack_plus_1 - 1] : STACK_NONE;
        t->tid = m->tid;
        t->state = state_letter(m->state);
        t->gil = m->gil;
        t->changed = m->changed;
        return r->c->detailed ? add_detail(r, m, &r->c->details[r->c->n_threads - 1]) : 0;
}

/* --- The host ------------------------------------------------------------------------------------------ */

static int add_problem(struct capture_reader *r, const char *problem) {
        struct captured_process *p;
        int k = *problem ? host_capture_add_process(r->c, &p) : 0;

        return k < 0 || !*problem ? k : capture_text_of(r, problem, &p->error);
}

static int add_host(struct capture_reader *r, const Capture__Host *m) {
        struct host_capture *c = r->c;
        int k;

        utf8_copy(c->slice, sizeof(c->slice), m->slice);
        utf8_copy(c->host, sizeof(c->host), m->host);
        utf8_copy(c->address, sizeof(c->address), m->address);
        utf8_copy(c->episode, sizeof(c->episode), m->episode);
        c->worker = m->worker_plus_1 - 1;
        c->round = m->round_plus_1 > 0 ? m->round_plus_1 - 1 : 0;
        c->wanted = m->wanted_usec;
        c->taken = m->taken_usec;
        c->clock_error = m->clock_error_usec;
        c->step = m->step_plus_1 - 1;
        c->ended = m->ended_usec;
        c->reached = m->reached_plus_1 - 1;
        c->silent = m->silent;
        if (c->round > 1)
                return wrong_number(r, "host, round");
        k = capture_text_of(r, m->ended_how, &c->ended_how);
        c->n_own = 0;
        for (size_t i = 0; i < MIN(m->n_own_addresses, (size_t) CAPTURE_OWN_MAX) && k == 0; i++)
                k = capture_text_of(r, m->own_addresses[i], &c->own[c->n_own++]);
        if (k == 0)
                k = add_problem(r, m->problem);
        return k < 0 ? not_added(r, k, "host") : 0;
}

static int add_core(struct capture_reader *r, const Capture__Core *m) {
        struct captured_core *core;
        int k = host_capture_add_core(r->c, &core);

        if (k < 0)
                return not_added(r, k, "cores");
        core->core = m->core;
        core->chip = m->chip;
        core->pc = m->pc;
        core->launch = m->launch;
        core->run = m->run;
        core->queued = m->queued;
        k = capture_text_of(r, m->fingerprint, &core->fingerprint);
        if (k == 0)
                k = capture_text_of(r, m->location, &core->location);
        if (k == 0)
                k = capture_text_of(r, m->error, &core->error);
        return k < 0 ? not_added(r, k, "cores") : 0;
}

static int add_finding(struct capture_reader *r, const Capture__Finding *m) {
        struct captured_finding *f;
        int k = host_capture_add_finding(r->c, &f);

        if (k < 0)
                return not_added(r, k, "findings");
        f->fail = m->fail;
        k = capture_text_of(r, m->check, &f->check);
        if (k == 0)
                k = capture_text_of(r, m->subject, &f->subject);
        if (k == 0)
                k = capture_text_of(r, m->found, &f->found);
        return k < 0 ? not_added(r, k, "findings") : 0;
}

static int capture_part_host(struct capture_reader *r, const Capture__Part *m) {
        int k = 0;

        for (size_t i = 0; i < m->n_process && k == 0; i++)
                k = add_process(r, m->process[i]);
        for (size_t i = 0; i < m->n_threads && k == 0; i++)
                k = add_thread(r, m->threads[i]);
        for (size_t i = 0; i < m->n_host && k == 0; i++)
                k = add_host(r, m->host[i]);
        for (size_t i = 0; i < m->n_cores && k == 0; i++)
                k = add_core(r, m->cores[i]);
        for (size_t i = 0; i < m->n_findings && k == 0; i++)
                k = add_finding(r, m->findings[i]);
        r->c->cut |= m->cut;
        return k;
}

/* --- The stream --------------------------------------------------------------------------------------- */

#define MEMORY_MAX                                                                                          \
        (64u * 1024 * 1024) /* that a part may ask protobuf-c for; tpu-stack's are of 64 KiB mostly */
#define CAPTURE_PARTS 1u                  /* field of Capture */
#define VERSION_TAG   0x08                /* field 1 of a part: it stands first */

/* As a tag it is none: there is no wire type 7. */
static bool is_gzip(const uint8_t *data, size_t len) {
        return len > 2 && data[0] == 0x1f && data[1] == 0x8b;
}

void capture_reader_init(struct capture_reader *r, const void *data, size_t len,
                         enum capture_detail detail) {
        *r = (struct capture_reader){ .detail = detail, .data = data, .len = len };
}

void capture_reader_clear(struct capture_reader *r) {
        free(r->member);
        free(r->strings.items);
        free(r->frames.items);
        free(r->stacks.items);
        free(r->kinds);
        *r = (struct capture_reader){ 0 };
}

static int read_part(struct capture_reader *r, const struct wire_field *part) {
        _cleanup_unpack_memory_ struct unpack_memory memory;
        const Capture__Part *m;
        int k;

        unpack_memory_init(&memory, MEMORY_MAX);
        m = capture__part__unpack(&memory.allocator, part->len, part->data);
        if (!m)
                return memory.exhausted ? capture_wrong(r, -E2BIG, NULL, "more than there can be")
                                        : capture_wrong(r, -EPROTO, NULL, "cut off, or no protobuf");
        if (m->version > CAPTURE_VERSION)
                return capture_wrong(r, -EPROTONOSUPPORT, "version", "later than what this program knows");
        k = capture_part_stacks(r, m);
        return k < 0 ? k : capture_part_host(r, m);
}

/* Whether the first part of a capture is this. */
static bool begins(const struct wire_field *part) {
        return part->len > 1 && part->data[0] == VERSION_TAG && part->data[1] != 0;
}

static int next_member(struct capture_reader *r) {
        size_t used = r->len, len = r->len;
        int k;

        free(r->member);
        r->member = NULL;
        r->parts = (struct wire){ r->data, r->data + r->len };
        if (is_gzip(r->data, r->len)) {
                k = inflate_gzip_member(r->data, r->len, CAPTURE_STREAM_MAX + 1, &used, &r->member, &len);
                if (k < 0)
                        return capture_wrong(r, k == -EBADMSG ? -EPROTO : k, "gzip",
                                     k == -E2BIG ? "longer than 4 MiB" : "damaged, or cut off");
                r->parts = (struct wire){ r->member, r->member + len };
        }
        r->data += used;
        r->len -= used;
        return 0;
}

/* The next part that belongs to this capture; 0: there is none. */
static int next_part(struct capture_reader *r, struct wire_field *ret) {
        while (r->parts.next < r->parts.end || r->len > 0) {
                struct wire from = r->parts;
                int k;

                if (r->parts.next == r->parts.end) {
                        k = next_member(r);
                        if (k < 0)
                                return k;
                        continue;
                }
                if (wire_next(&r->parts, ret) < 0)
                        return capture_wrong(r, -EPROTO, NULL, "cut off, or no protobuf");
                if (ret->number != CAPTURE_PARTS || ret->type != WIRE_BYTES)
                        return capture_wrong(r, -EPROTO, NULL, "this is no capture");
                if (r->part > 0 && begins(ret)) {
                        r->parts = from;
                        return 0;
                }
                if (r->part++ == 0 && !begins(ret))
                        return capture_wrong(r, -EPROTO, "version", "missing: this is no capture");
                r->bytes += (size_t) (r->parts.next - from.next); /* an empty part has some, too */
                return 1;
        }
        return 0;
}

int capture_reader_next(struct capture_reader *r, struct host_capture *c, struct stack_table *t,
                        char why[static CAPTURE_WHY_MAX]) {
        struct wire_field part;
        int k;

        host_capture_init(c);
        c->detailed = r->detail == CAPTURE_SHOWN;
        r->c = c;
        r->t = t;
        r->why = why;
        why[0] = '\0';
        r->part = r->bytes = r->strings.n = r->frames.n = r->stacks.n = 0;
        while ((k = next_part(r, &part)) > 0) {
                if (r->bytes > CAPTURE_STREAM_MAX)
                        return capture_wrong(r, -E2BIG, NULL, "the capture is longer than 4 MiB");
                k = read_part(r, &part);
                if (k < 0)
                        return k;
        }
        if (k < 0 || r->part == 0)
                return k;
        if (r->detail == CAPTURE_DIAGNOSED)
                host_capture_drop_others(c);
        return 1;
}

int capture_read(const void *data, size_t len, enum capture_detail detail, struct host_capture *c,
                 struct stack_table *t, char why[static CAPTURE_WHY_MAX]) {
        _cleanup_capture_reader_ struct capture_reader r;
        int k;

        capture_reader_init(&r, data, len, detail);
        k = capture_reader_next(&r, c, t, why);
        if (k == 1 && (r.len > 0 || r.parts.next < r.parts.end))
                return capture_wrong(&r, -EPROTO, "version", "a second capture begins here");
        return k == 0 ? capture_wrong(&r, -EPROTO, NULL, "there is nothing in it") : MIN(k, 0);
}
