/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

void capture_init(struct capture *c, struct memory_source source) {
        memory_init(&c->memory, source);
        memory_init(&c->names, source);
        memory_init(&c->moving, source);
        memory_init(&c->moving_names, source);
        c->names.ahead = c->moving_names.ahead = c->moving.ahead = 1;
}

void capture_drop_stacks(struct capture *c) {
        for (size_t i = 0; i < c->n_threads; i++)
                chain_clear(&c->threads[i].chain);
        free(TAKE_PTR(c->threads));
        c->n_threads = c->frames = 0;
}

bool frame_is_shown(const struct python_frame *f) {
        return !f->code || f->of_generator ||
               (int64_t) (f->instruction - f->code->instructions) >= f->code->first_traceable * 2;
}

/* An error of reading one thread's memory; others end the capture. */
static bool is_local(int error) {
        return error == -EFAULT || error == -EBADMSG || error == -ELOOP;
}

/* Looks up the code of every frame in names. A frame whose code makes no sense fails the chain. */
static int resolve_codes(struct capture *c, struct memory *names, struct chain *chain) {
        for (size_t i = 0; i < chain->n; i++) {
                struct python_frame *f = &chain->frames[i];
                struct code *code = NULL;
                int r = code_get(&c->codes, names, c->interpreter.layout, &c->interpreter.types,
                                 f->code_address, &code);

                if (r < 0 && r != -E2BIG)
                        return r;
                if (!code)
                        continue;
                if (!code_holds(code, f->instruction))
                        return -EBADMSG;
                f->code = code;
                f->line = code_line(code, f->instruction);
        }
        return 0;
}

static size_t frames_limit(const struct capture *c) {
        return MIN((size_t) WALK_FRAMES_MAX, WALK_FRAMES_TOTAL_MAX - c->frames);
}

/* Asks for what the first readings of all threads need, in one call each: where their innermost frames are,
 * and these with the page before, where their callers are. */
static int want_frames(struct capture *c) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < c->n_threads; i++)
                r = walk_want_place(&c->memory, &c->interpreter, c->threads[i].id.state);
        for (size_t i = 0; (r == 0 || is_local(r)) && i < c->n_threads; i++)
                r = walk_want_frames(&c->memory, &c->interpreter, c->threads[i].id.state);
        return is_local(r) ? 0 : r;
}

/* The same for the code objects of all frames, and for what these point to. */
static int want_codes(struct capture *c) {
        for (unsigned step = 0; step < 2; step++)
                for (size_t i = 0; i < c->n_threads; i++) {
                        const struct chain *chain = &c->threads[i].chain;
                        uint64_t last = 0;

                        for (size_t k = 0; k < chain->n; last = chain->frames[k++].code_address) {
                                int r = chain->frames[k].code_address == last
                                                ? 0
                                                : code_want(&c->codes, &c->names, c->interpreter.layout,
                                                            chain->frames[k].code_address, step == 1);

                                if (r < 0 && !is_local(r))
                                        return r;
                        }
                }
        return 0;
}

/* First readings: frames, then names, so that what is named was there before; local errors are
 * remembered. */
static int read_first(struct capture *c) {
        int r = c->memory.ahead > 1 ? want_frames(c) : 0;

        for (size_t i = 0; r == 0 && i < c->n_threads; i++) {
                struct python_thread *t = &c->threads[i];

                t->limit = frames_limit(c);
                r = walk_frames(&c->memory, &c->interpreter, t->id.state, t->limit, &t->chain);
                t->error = is_local(r) ? r : 0;
                r = is_local(r) ? 0 : r;
                c->frames += t->chain.n;
        }
        c->codes.generation++;
        if (r == 0)
                r = memory_refresh(&c->names);
        if (r == 0)
                r = want_codes(c);
        for (size_t i = 0; r == 0 && i < c->n_threads; i++) {
                struct python_thread *t = &c->threads[i];

                r = t->error ? 0 : resolve_codes(c, &c->names, &t->chain);
                t->error = is_local(r) ? r : t->error;
                r = is_local(r) ? 0 : r;
        }
        return r;
}

/* Second reading: whether it is equal. */
static int read_second(struct capture *c, struct python_thread *t) {
        _cleanup_(chain_clear) struct chain again = { 0 };
        int r = walk_frames(&c->memory, &c->interpreter, t->id.state, t->limit, &again);

        if (r < 0 && !is_local(r))
                return r;
        t->changed = r < 0 || t->error || !chain_equal(&t->chain, &again);
        return 0;
}

/* Drops what was read, names included: a later reading must not rest on it. */
static void start_anew(struct capture *c) {
        memory_forget(&c->moving);
        memory_forget(&c->moving_names);
        c->codes.generation++;
}

/* Both readings of a thread on pages copied twice by one call; then the names. */
static int read_pair(struct capture *c, struct python_thread *t) {
        _cleanup_(chain_clear) struct chain again = { 0 };
        int r = memory_refresh_twice(&c->moving);
        size_t known = c->moving.n_pages;

        t->limit = frames_limit(c);
        if (r == 0)
                r = walk_frames(&c->moving, &c->interpreter, t->id.state, t->limit, &t->chain);
        c->moving.side = 1;
        if (r == 0)
                r = walk_frames(&c->moving, &c->interpreter, t->id.state, t->limit, &again);
        if (r == 0)
                r = resolve_codes(c, &c->moving_names, &t->chain);
        c->frames += t->chain.n;
        t->error = is_local(r) ? r : 0;
        t->changed = t->error || c->moving.disturbed || t->chain.resting || c->moving.n_pages != known ||
                     !chain_equal(&t->chain, &again);
        return is_local(r) ? 0 : r;
}

/* Remembers where the thread is, to tell one that runs from one whose memory makes no sense. */
static void note_place(struct capture *c, struct python_thread *t) {
        uint64_t place = 0;

        (void) walk_place(&c->moving, &c->interpreter, t->id.state, &place); /* none is a place, too */

        t->moves = t->moves || (t->noted && place != t->place);
        t->noted = true;
        t->place = place;
}

/*
 * Reads one thread anew, one that moves or may move. The first walk only finds out which pages matter. A
 * reading that makes no sense does not replace one that did.
 */
static int read_again(struct capture *c, struct python_thread *t) {
        _cleanup_(chain_clear) struct chain scout = { 0 };
        struct python_thread again = { .id = t->id, .changed = true };
        int r;

        start_anew(c);
        note_place(c, t);
        r = walk_frames(&c->moving, &c->interpreter, t->id.state, WALK_FRAMES_MAX, &scout);
        if (r == 0 || is_local(r))
                r = read_pair(c, &again);
        if (r == -E2BIG && scout.n > 0) {
                chain_clear(&again.chain);
                return 0; /* too deep for one call: it stays marked */
        }
        if (r == 0 && (!again.error || t->error)) {
                struct chain old = t->chain;

                t->chain = again.chain;
                t->error = again.error;
                t->changed = again.changed;
                again.chain = old;
        }
        c->frames -= again.chain.n;
        chain_clear(&again.chain);
        return r;
}

static int first_pass(struct capture *c) {
        _cleanup_(thread_list_clear) struct thread_list list = { 0 };
        int r = walk_threads(&c->memory, &c->interpreter, &list);

        if (r < 0)
                return r;
        c->threads = calloc(list.n + 1, sizeof(*c->threads));
        if (!c->threads)
                return -ENOMEM;
        for (size_t i = 0; i < list.n; i++) {
                c->threads[i].id = list.items[list.n - 1 - i]; /* Python's own order is newest first */
                c->n_threads = i + 1;
        }
        c->main_thread = list.main_thread;
        return read_first(c);
}

/*
 * Threads that ended meanwhile are dropped: they are no part of the later moment. Both lists keep their
 * order, so that the next one is most often the one looked for.
 */
static void drop_ended(struct capture *c, const struct thread_list *now) {
        size_t kept = 0, expected = now->n;

        for (size_t i = 0; i < c->n_threads; i++) {
                const struct thread_id *id = &c->threads[i].id;
                size_t at = expected;

                while (at > 0 &&
                       (now->items[at - 1].state != id->state || now->items[at - 1].native != id->native))
                        at--;
                if (at > 0) {
                        expected = at - 1;
                        c->threads[i].gil = id->gil && now->items[at - 1].gil;
                        c->threads[i].may_run = id->gil || now->items[at - 1].gil;
                        c->threads[kept++] = c->threads[i];
                } else {
                        c->frames -= c->threads[i].chain.n;
                        chain_clear(&c->threads[i].chain);
                }
        }
        c->n_threads = kept;
}

/* Reads a thread that changed until two readings are equal, or it is clear that they will not be. */
static int settle_thread(struct capture *c, struct python_thread *t) {
        for (unsigned n = 0; t->changed && n < (t->error ? CAPTURE_TRIES : CAPTURE_RETRIES); n++) {
                int r = read_again(c, t);

                if (r < 0)
                        return r;
        }
        if (t->error && t->moves)
                t->error = 0; /* it ran all the time: changed, and no frame to show */
        return 0;
}

static int second_pass(struct capture *c) {
        _cleanup_(thread_list_clear) struct thread_list list = { 0 };
        int r = memory_refresh(&c->memory);

        if (r == 0)
                r = walk_threads(&c->memory, &c->interpreter, &list);
        if (r < 0)
                return r;
        drop_ended(c, &list);
        for (size_t i = 0; i < c->n_threads; i++) {
                r = read_second(c, &c->threads[i]);
                if (r < 0)
                        return r;
                /* Who holds the interpreter lock may run, and passes only when both readings are a moment
                 * apart. */
                if (c->threads[i].may_run)
                        c->threads[i].changed = true;
        }
        for (size_t i = 0; i < c->n_threads; i++) {
                r = settle_thread(c, &c->threads[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

int capture_stacks(struct capture *c) {
        int r = memory_renew(&c->memory);

        c->names.bytes_read = c->moving.bytes_read = c->moving_names.bytes_read = 0;
        code_cache_begin(&c->codes);
        for (unsigned n = 0; r == 0 || is_local(r); n++) {
                r = first_pass(c);
                if (r == 0)
                        r = second_pass(c);
                if (!is_local(r) || n == CAPTURE_RETRIES)
                        break;
                capture_drop_stacks(c); /* the lists themselves changed: look again */
                memory_forget(&c->memory);
        }
        return r;
}
