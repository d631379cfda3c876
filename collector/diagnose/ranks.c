/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include <ctype.h>
#include <strings.h>

/* --- Activity -------------------------------------------------------------------------------------- */

/* A thread that its program lets do something: also a loader's that fetches while the main thread waits for
 * it. */
static bool thread_is_active(const struct evidence *e, const struct seen_host *h,
                             const struct captured_process *before, const struct captured_thread *now) {
        const struct stack_table *t = &e->scene->table;
        struct place p = place_of(t, now, now->state);

        if (!p.own)
                return false;
        if (p.standing == STANDING_RUNS || p.standing == STANDING_SLEEPS || now->changed)
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
                if (thread_is_active(e, h, r->process[1] ? r->process[0] : NULL,
                                     &c->threads[p->first_thread + i]))
                        return true;
        return false;
}

size_t active_ranks(const struct evidence *e) {
        size_t n = 0;

        for (size_t i = 0; i < e->n_ranks; i++)
                n += rank_is_active(e, &e->ranks[i]);
        return n;
}

/* --- Behind a wait --------------------------------------------------------------------------------- */

int behind_survey(const struct evidence *e, bool **ret) {
        size_t n = e->scene->table.n_stacks;
        _cleanup_free_ uint32_t *first = calloc(n + 1, sizeof(*first)); /* the host that has it, and one */
        _cleanup_free_ bool *shared = calloc(n + 1, sizeof(*shared));

        if (!first || !shared)
                return -ENOMEM;
        for (uint32_t i = 0; i < e->n_hosts; i++) {
                const struct host_capture *c = e->hosts[i].last;

                for (size_t k = 0; c && k < c->n_threads; k++) {
                        uint32_t stack = c->threads[k].stack;

                        if (stack == STACK_NONE)
                                continue;
                        shared[stack] |= first[stack] != 0 && first[stack] != i + 1;
                        first[stack] = i + 1;
                }
        }
        *ret = TAKE_PTR(shared);
        return 0;
}

/* How much a thread explains: the greater the better, 0: nothing. */
static unsigned explanation_of(const struct captured_thread *t, const struct place *p) {
        if (t->stack == STACK_NONE || t->changed || !p->own)
                return 0;
        switch (p->standing) {
        case STANDING_DISK:
                return 4;
        case STANDING_CALL:
                return 3;
        case STANDING_RUNS:
                return 2;
        case STANDING_LOCK:
                return 1;
        case STANDING_UNKNOWN:
        case STANDING_COLLECTIVE:
        case STANDING_THREADS:
        case STANDING_SLEEPS:
        case STANDING_STOPPED:
        case STANDING_ENDED:
        case STANDING_SILENT:
        case _STANDING_MAX:
                return 0;
        }
        return 0;
}

const struct captured_thread *behind_find(const struct evidence *e, const bool *shared, const struct rank *r,
                                          struct place *ret) {
        const struct captured_thread *own = r->thread[1] ? r->thread[1] : r->thread[0], *best = NULL;
        const struct host_capture *c = e->hosts[r->host].last;
        unsigned most = 0;

        if (r->place.standing != STANDING_THREADS && r->place.standing != STANDING_LOCK)
                return NULL;
        for (size_t i = 0; i < c->n_threads; i++) {
                const struct captured_thread *t = &c->threads[i];
                struct place p = place_of(&e->scene->table, t, t->state);
                unsigned weight = explanation_of(t, &p);

                /* of equals the first thread by number, whatever their order */
                if (t == own || weight == 0 || weight < most || (weight == most && t->tid >= best->tid) ||
                    shared[t->stack])
                        continue;
                best = t;
                most = weight;
                *ret = p;
        }
        return best;
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

static const char *last_part(const char *function) {
        const char *dot = strrchr(function, '.');

        return dot ? dot + 1 : function;
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

        if (!thread || r->place.standing == STANDING_COLLECTIVE || r->place.standing == STANDING_STOPPED)
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
