/* SPDX-License-Identifier: Apache-2.0 */
#include "thread_walk.h"

#include <assert.h>

#include "grow.h"

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
                const struct python_frame *x = &a->frames[i], *y = &b->frames[i];

                if (x->address != y->address || x->code_address != y->code_address ||
                    x->of_generator != y->of_generator || (i > 0 && x->instruction != y->instruction))
                        return false;
        }
        return true;
}

static int add_thread(struct memory *m, const struct python_layout *l, uint64_t interpreter, size_t *size,
                      struct thread_list *list, struct thread_id *t, uint64_t *ret_next) {
        uint64_t back;
        int r;

        if (list->n == WALK_THREADS_MAX)
                return -E2BIG;
        r = memory_read_u64(m, t->state + l->thread.interpreter, &back);
        if (r == 0)
                r = memory_read_u64(m, t->state + l->thread.thread_id, &t->pthread);
        if (r == 0 && l->thread.native_thread_id != LAYOUT_NONE)
                r = memory_read_u64(m, t->state + l->thread.native_thread_id, &t->native);
        if (r == 0)
                r = memory_read_u64(m, t->state + l->thread.next, ret_next);
        if (r < 0)
                return r;
        if (back != interpreter)
                return -EBADMSG; /* it ended while it was read, or nothing is where the layout says */
        r = grow(&list->items, size, list->n + 1, sizeof(*list->items));
        if (r == 0)
                list->items[list->n++] = *t;
        return r;
}

/* From 3.12 on: the thread that holds the lock of an interpreter, which may be the main one's; 0: nobody. */
static int read_gil(struct memory *m, const struct python_layout *l, uint64_t interpreter, uint64_t *ret) {
        uint64_t gil, holder;
        int32_t locked;
        int r = memory_read_u64(m, interpreter + l->interpreter.gil, &gil);

        if (r < 0 || !gil) {
                *ret = 0;
                return r;
        }
        r = memory_read_u64(m, gil + l->gil.last_holder, &holder);
        if (r == 0)
                r = memory_read(m, gil + l->gil.locked, &locked, sizeof(locked));
        if (r == 0)
                *ret = locked > 0 ? holder : 0;
        return r;
}

/* gil_holder: of the whole process, before 3.12. */
static int walk_interpreter(struct memory *m, const struct python_layout *l, uint64_t address,
                            uint64_t gil_holder, size_t *size, struct thread_list *list,
                            uint64_t *ret_next) {
        struct loop_guard guard = { 0 };
        struct thread_id t = { 0 };
        uint64_t thread;
        int r = memory_read_u64(m, address + l->interpreter.id, &t.interpreter);

        if (r == 0)
                r = memory_read_u64(m, address + l->interpreter.threads, &thread);
        if (r == 0)
                r = memory_read_u64(m, address + l->interpreter.next, ret_next);
        if (r == 0 && l->interpreter.gil != LAYOUT_NONE)
                r = read_gil(m, l, address, &gil_holder);
        while (r == 0 && thread) {
                if (is_loop(&guard, thread))
                        return -ELOOP;
                t.state = thread;
                t.gil = thread == gil_holder;
                r = add_thread(m, l, address, size, list, &t, &thread);
        }
        return r;
}

static int walk_all_threads(struct memory *m, const struct interpreter *i, struct thread_list *ret) {
        _cleanup_(thread_list_clear) struct thread_list list = { 0 };
        const struct python_layout *l = i->layout;
        struct loop_guard guard = { 0 };
        uint64_t interpreter, gil_holder = 0;
        size_t size = 0;
        int r = memory_read_u64(m, i->runtime + l->runtime.interpreters, &interpreter);

        if (r == 0)
                r = memory_read_u64(m, i->runtime + l->runtime.main_thread, &list.main_thread);
        if (r == 0 && l->runtime.gil_holder != LAYOUT_NONE)
                r = memory_read_u64(m, i->runtime + l->runtime.gil_holder, &gil_holder);
        for (size_t n = 0; r == 0 && interpreter; n++) {
                if (n == WALK_INTERPRETERS_MAX)
                        return -E2BIG;
                if (is_loop(&guard, interpreter))
                        return -ELOOP;
                r = walk_interpreter(m, l, interpreter, gil_holder, &size, &list, &interpreter);
        }
        if (r < 0)
                return r;
        *ret = list;
        list = (struct thread_list) { 0 };
        return 0;
}

int walk_threads(struct memory *m, const struct interpreter *i, struct thread_list *ret) {
        unsigned ahead = m->ahead;
        int r;

        m->ahead = 1; /* what is before a thread's state is none of ours */
        r = walk_all_threads(m, i, ret);
        m->ahead = ahead;
        return r;
}

/* To 3.10 a frame is entered and left for the trace function while its state says otherwise. */
static int is_traced(struct memory *m, const struct python_layout *l, uint64_t state, bool *ret) {
        int32_t tracing = 0;
        int r = l->frame.state == LAYOUT_NONE
                        ? 0
                        : memory_read(m, state + l->thread.tracing, &tracing, sizeof(tracing));

        *ret = tracing > 0;
        return r;
}

/* To 3.10: what the frame says of itself. */
static bool frame_runs(const struct python_layout *l, const uint8_t *head) {
        return head[l->frame.state] == l->frame.executing || head[l->frame.state] == l->frame.unwinding;
}

/*
 * To 3.10 the innermost frame is there a moment before it runs and a moment after. The one that called it is
 * where the thread is then; a frame that is let go of has none.
 */
static int skip_resting(const struct python_layout *l, const struct chain *chain, const uint8_t *head,
                        bool *ret) {
        uint64_t previous;

        *ret = l->frame.state != LAYOUT_NONE && chain->n == 0 && !frame_runs(l, head);
        memcpy(&previous, head + l->frame.previous, 8);
        return *ret && previous == 0 ? -EBADMSG : 0;
}

/*
 * From 3.11 to 3.13 a frame that runs, or that called something outside Python, has no stack pointer put
 * away. From 3.14 on it puts it away for what is outside, too.
 */
static bool frame_rests(const struct python_layout *l, const uint8_t *head) {
        int32_t stack_top;

        if (l->frame.stack_top == LAYOUT_NONE || l->frame.stack_top_is_pointer)
                return false;
        memcpy(&stack_top, head + l->frame.stack_top, 4);
        return stack_top >= 0;
}

/*
 * What holds at every moment of a chain in use, and not of one whose frames were copied at different
 * moments: a frame that called another inside the interpreter loop has put its stack pointer away, and a
 * generator that has nobody to return to is executing (one that is just yielding still has its caller).
 */
static int check_in_use(struct memory *m, const struct python_layout *l, const struct python_frame *f,
                        const uint8_t *head, bool calls_inside) {
        uint64_t previous, pointer;
        int32_t number;
        uint8_t state;
        int r;

        if (l->frame.state != LAYOUT_NONE)
                return frame_runs(l, head) ? 0 : -EBADMSG;
        memcpy(&previous, head + l->frame.previous, 8);
        memcpy(&number, head + l->frame.stack_top, 4);
        if (l->frame.stack_top_is_pointer)
                memcpy(&pointer, head + l->frame.stack_top, 8);
        if (calls_inside && (l->frame.stack_top_is_pointer ? pointer == 0 : number < 0))
                return -EBADMSG;
        if (!f->of_generator || previous)
                return 0;
        r = memory_read(m, f->address - l->frame.generator_state, &state, 1);
        return r < 0 ? r : state == l->frame.executing ? 0 : -EBADMSG;
}

static uint64_t take_instruction(const struct python_layout *l, const uint8_t *head) {
        uint64_t address;
        int32_t index;

        if (l->frame.instruction_size == 0) {
                memcpy(&address, head + l->frame.instruction, 8);
                return address;
        }
        memcpy(&index, head + l->frame.instruction, 4);
        return index < 0 ? (uint64_t) -2 : (uint64_t) index * l->frame.instruction_size;
}

static int append_frame(struct chain *chain, size_t *size, const struct python_frame *f) {
        int r = grow(&chain->frames, size, chain->n + 1, sizeof(*chain->frames));

        if (r == 0)
                chain->frames[chain->n++] = *f;
        return r;
}

static int add_frame(struct memory *m, const struct python_layout *l, uint64_t address, bool traced,
                     size_t *size, struct chain *chain, bool *called_inside, uint64_t *ret_previous) {
        struct python_frame f = { .address = address };
        uint8_t head[128];
        int r;

        assert(l->frame.size <= sizeof(head));
        r = memory_read(m, address, head, l->frame.size);
        if (r < 0)
                return r;
        memcpy(&f.code_address, head + l->frame.code, 8);
        f.code_address &= ~(uint64_t) l->frame.tag;
        memcpy(ret_previous, head + l->frame.previous, 8);
        if (l->frame.owned_by_c != 0 && head[l->frame.owner] >= l->frame.owned_by_c) {
                *called_inside = false; /* the interpreter loop was left here: no call of Python's */
                if (chain->n > 0 && !chain->frames[chain->n - 1].entry) {
                        chain->frames[chain->n - 1].entry = true;
                        chain->frames[chain->n - 1].entry_at =
                                address; /* a variable of the loop's function */
                }
                return 0;
        }
        if (!traced) {
                bool skip;

                r = skip_resting(l, chain, head, &skip);
                if (r < 0 || skip)
                        return r;
        }
        f.entry = *ret_previous == 0 || l->frame.state != LAYOUT_NONE ||
                  (l->frame.is_entry != LAYOUT_NONE && head[l->frame.is_entry]);
        f.instruction = take_instruction(l, head);
        f.of_generator =
                l->frame.owner != LAYOUT_NONE && head[l->frame.owner] == l->frame.owned_by_generator;
        r = traced ? 0 : check_in_use(m, l, &f, head, *called_inside);
        if (r < 0)
                return r;
        if (chain->n == 0)
                chain->resting = frame_rests(l, head);
        *called_inside = l->frame.is_entry == LAYOUT_NONE || !head[l->frame.is_entry];
        return append_frame(chain, size, &f);
}

/* Address of the innermost frame. */
static int read_innermost(struct memory *m, const struct python_layout *l, uint64_t state, uint64_t *ret) {
        uint64_t from = state;
        int r = l->thread.cframe == LAYOUT_NONE ? 0 : memory_read_u64(m, state + l->thread.cframe, &from);

        return r < 0 ? r : memory_read_u64(m, from + l->thread.frame, ret);
}

int walk_place(struct memory *m, const struct interpreter *i, uint64_t state, uint64_t *ret) {
        const struct python_layout *l = i->layout;
        uint64_t frame, instruction;
        int r = read_innermost(m, l, state, &frame);

        if (r == 0)
                r = memory_read_u64(m, frame + l->frame.instruction, &instruction);
        if (r == 0)
                *ret = frame + instruction * 31;
        return r;
}

int walk_want_place(struct memory *m, const struct interpreter *i, uint64_t state) {
        const struct python_layout *l = i->layout;
        uint64_t from;
        int r = l->thread.cframe == LAYOUT_NONE ? -ENOENT
                                                : memory_read_u64(m, state + l->thread.cframe, &from);

        if (r == 0)
                r = memory_want(m, from + l->thread.frame, 8);
        return r == -ENOENT ? 0 : r;
}

int walk_want_frames(struct memory *m, const struct interpreter *i, uint64_t state) {
        uint64_t frame;
        int r = read_innermost(m, i->layout, state, &frame);

        if (r < 0 || frame < MEMORY_PAGE)
                return r;
        return memory_want(m, frame - MEMORY_PAGE, MEMORY_PAGE + i->layout->frame.size);
}

int walk_frames(struct memory *m, const struct interpreter *i, uint64_t state, size_t max,
                struct chain *ret) {
        _cleanup_(chain_clear) struct chain chain = { 0 };
        const struct python_layout *l = i->layout;
        struct loop_guard guard = { 0 };
        uint64_t frame;
        /* the frame before was called without leaving the interpreter loop */
        bool traced = false, called_inside = false;
        size_t size = 0;
        int r = read_innermost(m, l, state, &frame);

        if (r == 0)
                r = is_traced(m, l, state, &traced);
        if (r < 0)
                return r;
        for (size_t steps = 0; frame; steps++) {
                if (is_loop(&guard, frame))
                        return -ELOOP;
                if (chain.n >= max || steps >= 2 * WALK_FRAMES_MAX) {
                        chain.cut = true;
                        break;
                }
                r = add_frame(m, l, frame, traced, &size, &chain, &called_inside, &frame);
                if (r < 0)
                        return r;
        }
        *ret = chain;
        chain = (struct chain) { 0 };
        return 0;
}
