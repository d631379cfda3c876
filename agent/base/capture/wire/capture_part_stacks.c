/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_part.h"

#include "grow.h"
#include "utf8.h"

enum frame_class { FRAME_OTHERS, FRAME_OF_PYTHON, FRAME_OF_INTERPRETER };

int capture_wrong(struct capture_reader *r, int error, const char *field, const char *why) {
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

bool capture_string_of(const struct capture_reader *r, uint32_t number, uint32_t *ret) {
        if (number >= MAX(r->strings.n, (size_t) 1))
                return false;
        *ret = r->strings.n > 0 ? r->strings.items[number] : 0;
        return true;
}

/* What is there already was clean when it came first. */
int capture_text_of(struct capture_reader *r, const char *text, uint32_t *ret) {
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

int capture_part_stacks(struct capture_reader *r, const Capture__Part *m) {
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
