/* SPDX-License-Identifier: Apache-2.0 */
#include "thread_walk.h"

/* Brent's: finds a list that returns to itself within twice its length. */
struct loop_guard {
        uint64_t saved;
        size_t steps, power;
};

static bool is_loop(struct loop_guard *g, uint64_t address) {
        if (g->steps > 0 && address == g->saved)
                return true;
        if (g->steps >= g->power) {
                g->saved = address;
                g->power = g->power ? g->power * 2 : 1;
                g->steps = 0;
        }
        g->steps++;
        return false;
}

void chain_clear(struct chain *c) {
        free(c->frames);
        *c = (struct chain) { 0 };
}

void thread_list_clear(struct thread_list *l) {
        free(l->items);
        *l = (struct thread_list) { 0 };
}

bool chain_equal(const struct chain *a, const struct chain *b) {
        if (a->n != b->n || a->cut != b->cut)
                return false;
        for (size_t i = 0; i < a->n; i++) {
                const struct frame *x = &a->frames[i], *y = &b->frames[i];

                if (x->address != y->address || x->code_address != y->code_address ||
                    x->of_generator != y->of_generator || (i > 0 && x->instruction != y->instruction))
                        return false;
        }
        return true;
}

static int add_thread(struct memory *m, const struct python_layout *l, uint64_t state, uint64_t interpreter,
                      size_t *size, struct thread_list *list, uint64_t *ret_next) {
        struct thread_id t = { .state = state, .interpreter = interpreter };
        uint8_t head[256];
        int r;

        if (list->n == WALK_THREADS_MAX)
                return -E2BIG;
        r = memory_read(m, state, head, l->thread.size);
        if (r < 0)
                return r;
        memcpy(&t.pthread, head + l->thread.thread_id, 8);
        memcpy(&t.native, head + l->thread.native_thread_id, 8);
        if (list->n == *size) {
                struct thread_id *more = realloc(list->items,
                                                 (*size = *size ? *size * 2 : 32) * sizeof(*more));

                if (!more)
                        return -ENOMEM;
                list->items = more;
        }
        list->items[list->n++] = t;
        memcpy(ret_next, head + l->thread.next, 8);
        return 0;
}

static int walk_interpreter(struct memory *m, const struct python_layout *l, uint64_t address, size_t *size,
                            struct thread_list *list, uint64_t *ret_next) {
        uint8_t head[64];
        struct loop_guard guard = { 0 };
        uint64_t id, thread;
        int r = memory_read(m, address, head, l->interpreter.size);

        if (r < 0)
                return r;
        memcpy(&id, head + l->interpreter.id, 8);
        memcpy(&thread, head + l->interpreter.threads, 8);
        memcpy(ret_next, head + l->interpreter.next, 8);
        while (thread) {
                if (is_loop(&guard, thread))
                        return -ELOOP;
                r = add_thread(m, l, thread, id, size, list, &thread);
                if (r < 0)
                        return r;
        }
        return 0;
}

int walk_threads(struct memory *m, const struct interpreter *i, struct thread_list *ret) {
        _cleanup_(thread_list_clear) struct thread_list list = { 0 };
        const struct python_layout *l = i->layout;
        struct loop_guard guard = { 0 };
        uint8_t head[1024];
        uint64_t interpreter;
        size_t size = 0;
        int r = memory_read(m, i->runtime, head, l->runtime.size);

        if (r < 0)
                return r;
        memcpy(&interpreter, head + l->runtime.interpreters, 8);
        memcpy(&list.main_thread, head + l->runtime.main_thread, 8);
        memcpy(&list.gil_holder, head + l->runtime.gil_holder, 8);
        for (size_t n = 0; interpreter; n++) {
                if (n == WALK_INTERPRETERS_MAX)
                        return -E2BIG;
                if (is_loop(&guard, interpreter))
                        return -ELOOP;
                r = walk_interpreter(m, l, interpreter, &size, &list, &interpreter);
                if (r < 0)
                        return r;
        }
        *ret = list;
        list = (struct thread_list) { 0 };
        return 0;
}

/*
 * What holds at every moment of a chain in use, and not of one whose frames were copied at different
 * moments: a frame that called another inside the interpreter loop has put its stack pointer away, and a
 * generator that has nobody to return to is executing (one that is just yielding still has its caller).
 */
static int check_in_use(struct memory *m, const struct python_layout *l, const struct frame *f,
                        const uint8_t *head, bool calls_inside) {
        uint64_t previous;
        int32_t stack_top;
        uint8_t state;
        int r;

        memcpy(&stack_top, head + l->frame.stack_top, 4);
        memcpy(&previous, head + l->frame.previous, 8);
        if (calls_inside && stack_top < 0)
                return -EBADMSG;
        if (!f->of_generator || previous)
                return 0;
        r = memory_read(m, f->address - l->frame.generator_state, &state, 1);
        return r < 0 ? r : state == l->frame.executing ? 0 : -EBADMSG;
}

static int add_frame(struct memory *m, const struct python_layout *l, uint64_t address, size_t *size,
                     struct chain *chain, bool *called_inside, uint64_t *ret_previous) {
        struct frame f = { .address = address };
        uint8_t head[128];
        int r = memory_read(m, address, head, l->frame.size);

        if (r < 0)
                return r;
        memcpy(&f.code_address, head + l->frame.code, 8);
        memcpy(&f.instruction, head + l->frame.instruction, 8);
        f.of_generator = head[l->frame.owner] == l->frame.owned_by_generator;
        r = check_in_use(m, l, &f, head, *called_inside);
        if (r < 0)
                return r;
        *called_inside = !head[l->frame.is_entry];
        if (chain->n == *size) {
                struct frame *more = realloc(chain->frames,
                                             (*size = *size ? *size * 2 : 64) * sizeof(*more));

                if (!more)
                        return -ENOMEM;
                chain->frames = more;
        }
        chain->frames[chain->n++] = f;
        memcpy(ret_previous, head + l->frame.previous, 8);
        return 0;
}

int walk_frames(struct memory *m, const struct interpreter *i, uint64_t state, size_t max,
                struct chain *ret) {
        _cleanup_(chain_clear) struct chain chain = { 0 };
        const struct python_layout *l = i->layout;
        struct loop_guard guard = { 0 };
        uint64_t cframe, frame;
        bool called_inside = false; /* the frame before was called without leaving the interpreter loop */
        size_t size = 0;
        int r = memory_read_u64(m, state + l->thread.cframe, &cframe);

        if (r == 0)
                r = memory_read_u64(m, cframe + l->cframe.current_frame, &frame);
        if (r < 0)
                return r;
        while (frame) {
                if (is_loop(&guard, frame))
                        return -ELOOP;
                if (chain.n >= max) {
                        chain.cut = true;
                        break;
                }
                r = add_frame(m, l, frame, &size, &chain, &called_inside, &frame);
                if (r < 0)
                        return r;
        }
        *ret = chain;
        chain = (struct chain) { 0 };
        return 0;
}
