/* SPDX-License-Identifier: Apache-2.0 */
#include "one_stack.h"

/* The next run from *index on; then *index is behind it. NULL: there is none. */
static const struct frame *next_run(const struct python_thread *t, size_t *index) {
        while (*index < t->chain.n) {
                const struct frame *f = &t->chain.frames[(*index)++];

                if (f->entry)
                        return f;
        }
        return NULL;
}

static bool holds(const struct native_thread *n, size_t i, const struct frame *run) {
        return run && i + 1 < n->n && n->frames[i].sp != 0 && run->entry_at >= n->frames[i].sp &&
               run->entry_at < n->frames[i + 1].sp;
}

/* Whether every run is in one of the frames, in their order. */
static bool all_have_places(const struct native_thread *n, const struct python_thread *t) {
        size_t index = 0;
        const struct frame *run = next_run(t, &index);

        for (size_t i = 0; i < n->n && run; i++)
                if (holds(n, i, run))
                        run = next_run(t, &index);
        return !run;
}

bool stack_joins(const struct native_thread *n, const struct python_thread *t) {
        size_t runs = 0;

        for (size_t i = 0; i < t->chain.n; i++)
                runs += t->chain.frames[i].entry;
        return !t->error && !t->changed && !t->drifted && !t->chain.cut && runs > 0 &&
               (runs == native_evaluations(n) || all_have_places(n, t));
}

const char *native_error(int error) {
        return error == -EBUSY   ? "it waits in the kernel and cannot be interrupted"
               : error == -EPERM ? "not permitted, or another debugger has it"
               : error == -ESRCH ? "it has ended"
                                 : "no frame could be told";
}

typedef int (*visit_t)(const struct joined_frame *f, void *userdata);

static int walk_kernel(const struct native_thread *n, visit_t visit, void *userdata) {
        int r = 0;

        for (const char *line = n->kernel, *end; r == 0 && line && (end = strchr(line, '\n')); line = end + 1)
                r = visit(&(struct joined_frame){ .kind = JOINED_KERNEL,
                                                  .kernel = line,
                                                  .kernel_len = (size_t) (end - line) },
                          userdata);
        return r;
}

/* The Python frames of one run of the interpreter loop, from *index on; all of them when there is no native
 * stack. */
static int walk_run(const struct python_thread *t, bool all, size_t *index, visit_t visit, void *userdata) {
        int r = 0;

        while (r == 0 && *index < t->chain.n && !t->error) {
                const struct frame_locals *locals =
                        t->locals && *index < LOCALS_FRAMES_MAX ? &t->locals[*index] : NULL;
                const struct frame *f = &t->chain.frames[(*index)++];

                if (frame_is_shown(f))
                        r = visit(&(struct joined_frame){ .kind = JOINED_PYTHON, .python = f, .locals = locals },
                                  userdata);
                if (f->entry && !all)
                        break;
        }
        return r;
}

/* Whether native frame i is the run whose Python frames begin at index. */
static bool is_run(const struct native_thread *n, size_t i, const struct python_thread *t, size_t index,
                   bool by_place) {
        if (!t)
                return false;
        return by_place ? holds(n, i, next_run(t, &index)) : n->frames[i].symbol->evaluates;
}

int stack_walk(const struct native_thread *n, const struct python_thread *t, visit_t visit, void *userdata) {
        bool by_place = n && t && all_have_places(n, t);
        size_t index = 0;
        int r = n ? walk_kernel(n, visit, userdata) : 0;

        for (size_t i = 0; n && r == 0 && i < n->n; i++)
                if (is_run(n, i, t, index, by_place))
                        r = walk_run(t, false, &index, visit, userdata);
                else
                        r = visit(&(struct joined_frame){ .kind = JOINED_NATIVE, .native = &n->frames[i] },
                                  userdata);
        return r == 0 && t && !n ? walk_run(t, true, &index, visit, userdata) : r;
}
