/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include <ctype.h>
#include <strings.h>

#include "grow.h"

/* --- Activity -------------------------------------------------------------------------------------- */

/* A thread that its program lets do something: also a loader's that fetches while the main thread waits for
 * it. */
static bool thread_is_active(const struct evidence *e, const struct seen_host *h,
                             const struct host_capture *c, const struct captured_process *before,
                             const struct captured_thread *now) {
        struct place p = place_of(&e->scene->table, e->codes, c, now, now->state);

        if (!p.own)
                return false;
        if (p.kind == KIND_CPU || p.kind == WAIT_TIMER || now->changed)
                return true;
        for (uint32_t i = 0; before && i < before->n_threads; i++) {
                const struct captured_thread *then = &h->capture[0]->threads[before->first_thread + i];

                if (then->tid == now->tid)
                        return then->stack != now->stack;
        }
        return false;
}

static bool rank_is_active(const struct evidence *e, const struct rank *r) {
        const struct seen_host *h = &e->hosts[r->host];
        const struct captured_process *p = r->process[1] ? r->process[1] : r->process[0];
        const struct host_capture *c = r->process[1] ? h->capture[1] : h->capture[0];

        for (uint32_t i = 0; p && i < p->n_threads; i++)
                if (thread_is_active(e, h, c, r->process[1] ? r->process[0] : NULL,
                                     &c->threads[p->first_thread + i]))
                        return true;
        return false;
}

bool host_has_left(const struct seen_host *h, const struct evidence *e) {
        return h->last && h->n_ranks == 0 && (h->last->ended > 0 || e->n_ranks > 0);
}

bool host_unreadable(const struct evidence *e, const struct seen_host *h) {
        for (uint32_t i = 0; i < h->n_ranks; i++)
                if (e->ranks[h->first_rank + i].place.kind != KIND_UNKNOWN)
                        return false;
        return h->last && h->n_ranks > 0 && !h->last->ended;
}

size_t active_ranks(const struct evidence *e) {
        size_t n = 0;

        for (size_t i = 0; i < e->n_ranks; i++)
                n += rank_is_active(e, &e->ranks[i]);
        return n;
}

/* --- Classes --------------------------------------------------------------------------------------- */

struct key {
        const struct evidence *e;
        uint32_t rank;
};

static const struct stack_frame *frame_of(const struct stack_table *t, uint32_t frame) {
        static const struct stack_frame none = { 0 };

        return frame == STACK_NONE ? &none : &t->frames[frame];
}

/* A line counts only of what stands still. */
static uint32_t line_of(const struct stack_table *t, uint8_t kind, uint32_t frame, bool moved) {
        return kind == KIND_CPU || moved ? 0 : frame_of(t, frame)->line;
}

static int compare_places(const struct stack_table *t, const struct rank *a, const struct rank *b) {
        const struct stack_frame *f = frame_of(t, a->place.frame), *g = frame_of(t, b->place.frame);
        int r = COMPARE(a->place.kind, b->place.kind) ?: strcmp(a->place.what, b->place.what) ?:
                                                         strcmp(a->place.word, b->place.word);

        if (r == 0 && f->file != g->file)
                r = strcmp(stack_table_text(t, f->file), stack_table_text(t, g->file));
        if (r == 0 && f->function != g->function)
                r = strcmp(stack_table_text(t, f->function), stack_table_text(t, g->function));
        return r ?: COMPARE(line_of(t, a->place.kind, a->place.frame, a->moved),
                            line_of(t, b->place.kind, b->place.frame, b->moved));
}

static int compare_keys(const void *x, const void *y) {
        const struct key *a = x, *b = y;

        return compare_places(&a->e->scene->table, &a->e->ranks[a->rank], &b->e->ranks[b->rank]) ?:
               COMPARE(a->rank, b->rank);
}

/* Greatest first; between equals the order of the places, which the first rank of each has. */
static int compare_classes(const void *x, const void *y) {
        const struct rank_class *a = x, *b = y;

        return COMPARE(b->n, a->n) ?: COMPARE(a->example, b->example);
}

static int add_class(struct evidence *e, uint32_t rank) {
        const struct rank *from = &e->ranks[rank];
        int r = grow(&e->classes, &e->classes_size, e->n_classes + 1, sizeof(*e->classes));

        if (r < 0)
                return r;
        e->classes[e->n_classes++] = (struct rank_class){ .place = from->place, .example = rank };
        return 0;
}

/* Ranks of one class lie together in keys, and the class's example is the first of them. */
static void number_ranks(struct evidence *e, const struct key *keys) {
        for (size_t k = 0; k < e->n_classes; k++)
                e->ranks[e->classes[k].example].class = (uint32_t) k;
        for (size_t i = 1; i < e->n_ranks; i++) {
                struct rank *rank = &e->ranks[keys[i].rank], *before = &e->ranks[keys[i - 1].rank];

                if (compare_places(&e->scene->table, before, rank) == 0)
                        rank->class = before->class;
        }
}

int ranks_classify(struct evidence *e) {
        _cleanup_free_ struct key *keys = calloc(e->n_ranks + 1, sizeof(*keys));
        int r = 0;

        if (!keys)
                return -ENOMEM;
        for (size_t i = 0; i < e->n_ranks; i++)
                keys[i] = (struct key){ e, (uint32_t) i };
        qsort(keys, e->n_ranks, sizeof(*keys), compare_keys);
        e->n_classes = 0;
        for (size_t i = 0; i < e->n_ranks && r == 0; i++) {
                const struct rank *rank = &e->ranks[keys[i].rank];

                if (i == 0 || compare_places(&e->scene->table, &e->ranks[keys[i - 1].rank], rank) != 0)
                        r = add_class(e, keys[i].rank);
                if (r < 0)
                        return r;
                e->classes[e->n_classes - 1].n++;
                e->classes[e->n_classes - 1].moved |= rank->moved;
        }
        if (e->n_classes > 1)
                qsort(e->classes, e->n_classes, sizeof(*e->classes), compare_classes);
        number_ranks(e, keys);
        return 0;
}

/* --- Saving ---------------------------------------------------------------------------------------- */

/* Parts of files whose code writes checkpoints, and which of its functions; function NULL: all of them. */
static const struct {
        const char *file, *function;
} savers[] = {
        { "torch/serialization.py", "save" }, /* torch.save and what it is made of */
        { "torch/serialization.py", "_save" },
        { "torch/serialization.py", "_legacy_save" },
        { "torch/distributed/checkpoint/", NULL }, /* torch.distributed.checkpoint */
        { "orbax/checkpoint/", NULL },             /* Orbax, which MaxText saves with */
        { "flax/training/checkpoints.py", NULL },
        { "safetensors/torch.py", "save_file" },
        { "numpy/lib/npyio.py", "save" }, /* numpy before 2.0; since: numpy/lib/_npyio_impl.py */
        { "numpy/lib/npyio.py", "_savez" },
        { "numpy/lib/_npyio_impl.py", "save" },
        { "numpy/lib/_npyio_impl.py", "_savez" },
        { "/pickle.py", "dump" }, /* CPython's library */
        { "/shutil.py", "copyfileobj" },
        { "/shutil.py", "copyfile" },
};

/* Linux: they write to a file, or wait until it is written. What goes to sockets has calls of its own,
 * mostly. */
static const char *const calls[] = {
        "write", "pwrite64",  "writev",          "pwritev",         "pwritev2",
        "fsync", "fdatasync", "sync_file_range", "copy_file_range", "sendfile",
};

bool function_saves(const char *name) {
        static const char *const words[] = { "save", "saving", "write", "writing", "dump" };

        for (const char *p = name; *p; p++) {
                bool begins = p == name || !isalnum((unsigned char) p[-1]) ||
                              (isupper((unsigned char) *p) && islower((unsigned char) p[-1]));

                for (size_t i = 0; begins && i < ELEMENTSOF(words); i++) {
                        size_t n = strlen(words[i]);

                        if (strncasecmp(p, words[i], n) == 0 && !islower((unsigned char) p[n]))
                                return true;
                }
        }
        return false;
}

static bool frame_saves(const struct stack_table *t, const struct stack_frame *f) {
        const char *file = stack_table_text(t, f->file),
                   *function = last_part(stack_table_text(t, f->function));

        if (f->kind != FRAME_PYTHON)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(savers); i++)
                if (strstr(file, savers[i].file) &&
                    (!savers[i].function || streq(function, savers[i].function)))
                        return true;
        return !frame_is_library(t, f) && function_saves(function);
}

bool rank_saves(const struct evidence *e, const struct rank *r) {
        const struct captured_thread *thread = r->thread[1] ? r->thread[1] : r->thread[0];
        const struct stack_table *t = &e->scene->table;

        if (!thread || r->place.meets || r->place.kind == WAIT_STOPPED)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(calls); i++)
                if (streq(stack_table_text(t, thread->syscall), calls[i]))
                        return true;
        for (uint32_t i = 0; thread->stack != STACK_NONE && i < t->stacks[thread->stack].n; i++)
                if (frame_saves(t, &t->frames[stack_table_frames(t, thread->stack)[i]]))
                        return true;
        return false;
}

/* --- Sets of hosts --------------------------------------------------------------------------------- */

static bool one_slice(const struct evidence *e) {
        for (size_t i = 1; i < e->n_hosts; i++)
                if (!streq(e->hosts[i].slice, e->hosts[0].slice))
                        return false;
        return true;
}

static bool is_next_worker(const struct seen_host *a, const struct seen_host *b) {
        return a->worker != CAPTURE_WORKER_NONE && b->worker == a->worker + 1 && streq(a->slice, b->slice);
}

/* The range that begins at i; returns where it ends. */
static size_t end_of_range(const struct evidence *e, const bool *in, size_t i) {
        while (i + 1 < e->n_hosts && in[i + 1] && is_next_worker(&e->hosts[i], &e->hosts[i + 1]))
                i++;
        return i;
}

static void print_range(FILE *f, const struct seen_host *first, const struct seen_host *last) {
        if (first->worker == CAPTURE_WORKER_NONE)
                fputs(!first->who ? "?" : first->who->host[0] ? first->who->host : "unnamed", f);
        else if (first == last)
                fprintf(f, "%" PRIu32, first->worker);
        else
                fprintf(f, "%" PRIu32 "-%" PRIu32, first->worker, last->worker);
}

void rank_set_print(FILE *f, const struct evidence *e, const bool *in, unsigned parts) {
        const struct seen_host *before = NULL;
        bool one = one_slice(e);
        unsigned n = 0;

        if (one)
                fputc('[', f);
        for (size_t i = 0, end; i < e->n_hosts; i = end + 1) {
                const struct seen_host *h = &e->hosts[i];

                end = i;
                if (!in[i])
                        continue;
                end = end_of_range(e, in, i);
                if (!one && (!before || !streq(before->slice, h->slice)))
                        fprintf(f, "%s%s[", before ? "] " : "", h->slice[0] ? h->slice : "?");
                else if (before)
                        fputc(',', f);
                before = h;
                if (n++ == parts) {
                        fputs("…", f);
                        break;
                }
                print_range(f, h, &e->hosts[end]);
        }
        if (one || before)
                fputc(']', f);
}
