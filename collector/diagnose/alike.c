/* SPDX-License-Identifier: Apache-2.0 */
#include "alike.h"

#include <ctype.h>

#include "fnv.h"
#include "scene.h"

#define COUNTS_MAX (1u << 23)

void alike_clear(struct alike_table *t) {
        free(t->slots);
        *t = ALIKE_TABLE_NULL;
}

/* --- One thread ------------------------------------------------------------------------------------- */

/* splitmix64: numbers that differ become numbers that differ everywhere. */
static uint64_t mix(uint64_t a, uint64_t b) {
        uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b + 1;

        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        return x ^ (x >> 31);
}

static uint64_t function_of(const struct stack_table *t, uint32_t frame) {
        return frame == STACK_NONE ? 0 : mix(t->frames[frame].file, t->frames[frame].function);
}

uint64_t alike_process(const char *command, uint32_t before) {
        uint64_t hash = FNV_BEGIN;

        for (; *command; command++)
                if (!isdigit((unsigned char) *command))
                        hash = fnv(hash, command, 1);
        return mix(hash, before);
}

/* Locks that somebody has, and those that processes share, are other things than a condition of the process
 * that nobody has. */
static uint64_t lock_class(const struct host_capture *c, const struct captured_thread *thread) {
        const struct captured_wait *w = thread->n_waits == 1 ? &c->waits[thread->first_wait] : NULL;

        if (!w || w->kind != WAIT_LOCK)
                return 0;
        return w->holder_tid > 0 ? 2 : w->space != 0;
}

struct alike_thread alike_thread(const struct stack_table *t, const struct stack_code *codes,
                                 const struct host_capture *c, const struct captured_process *p,
                                 const struct captured_thread *thread, uint64_t process, bool main,
                                 bool moved) {
        static const struct stack_code none = { STACK_NONE, STACK_NONE, STACK_NONE, 0, 0 };
        bool read = thread->stack != STACK_NONE && !thread->changed;
        const struct stack_code *code = read ? &codes[thread->stack] : &none;
        uint8_t kind = place_kind(t, c, thread, captured_state_of(p, thread));
        uint32_t frame = code->own != STACK_NONE ? code->own : code->innermost;
        uint32_t lines = frame == STACK_NONE || moved || kind == KIND_CPU ? 0
                         : code->own != STACK_NONE                        ? code->own_path
                                                                          : t->frames[frame].line;
        struct alike_thread a;

        if (main)
                a.role = mix(process, 1);
        else if (thread->name != c->threads[p->first_thread].name)
                a.role = mix(process, mix(2, thread->name));
        else
                a.role = mix(process, mix(3, function_of(t, code->root)));
        a.places[2] = mix(a.role, mix(kind, 4 + lock_class(c, thread)));
        a.places[1] = mix(a.places[2], function_of(t, frame));
        a.places[0] = mix(a.places[1], lines);
        return a;
}

/* --- All of them ------------------------------------------------------------------------------------ */

static struct alike_count *find_count(const struct alike_table *t, uint64_t key) {
        size_t i = key & (t->size - 1);

        while (t->slots[i].key != 0 && t->slots[i].key != key)
                i = (i + 1) & (t->size - 1);
        return &t->slots[i];
}

/* 1: it is as large as it may be, and half full. */
static int make_room(struct alike_table *t) {
        struct alike_table wider = { .size = MAX(2 * t->size, (size_t) 1024), .n = t->n };

        if (t->n * 2 < t->size)
                return 0;
        if (wider.size > COUNTS_MAX)
                return 1;
        wider.slots = calloc(wider.size, sizeof(*wider.slots));
        if (!wider.slots)
                return -ENOMEM;
        for (size_t i = 0; i < t->size; i++)
                if (t->slots[i].key != 0)
                        *find_count(&wider, t->slots[i].key) = t->slots[i];
        free(t->slots);
        *t = wider;
        return 0;
}

static int count_one(struct alike_table *t, uint64_t key, uint64_t role, uint8_t level, uint32_t rank) {
        struct alike_count *c;
        int r = make_room(t);

        if (r < 0)
                return r;
        key += key == 0;
        c = find_count(t, key);
        if (c->key == 0 && r > 0)
                return 0;
        if (c->key == 0) {
                *c = (struct alike_count){ .key = key, .role = role, .level = level };
                t->n++;
        }
        c->ranks += c->last != rank + 1;
        c->last = rank + 1;
        return 0;
}

int alike_add(struct alike_table *t, const struct alike_thread *a, uint32_t rank) {
        int r = count_one(t, a->role, a->role, ALIKE_LEVELS, rank);

        for (uint8_t k = 0; k < ALIKE_LEVELS && r == 0; k++)
                r = count_one(t, a->places[k], a->role, k, rank);
        return r;
}

static const struct alike_count *count_of(const struct alike_table *t, uint64_t key) {
        static const struct alike_count none = { 0 };

        return t->size == 0 ? &none : find_count(t, key + (key == 0));
}

static bool is_most(const struct alike_table *t, const struct alike_count *c) {
        return c->ranks * 2 > count_of(t, c->role)->ranks;
}

void alike_settle(struct alike_table *t, size_t hosts) {
        t->hosts = hosts;
        for (size_t i = 0; i < t->size; i++)
                if (t->slots[i].key != 0 && t->slots[i].level < ALIKE_LEVELS && is_most(t, &t->slots[i]))
                        find_count(t, t->slots[i].role)->most |= (uint8_t) (1u << t->slots[i].level);
}

enum alike alike_judge(const struct alike_table *t, const struct alike_thread *a) {
        const struct alike_count *role = count_of(t, a->role);
        bool most[ALIKE_LEVELS];

        if (role->ranks * 2 <= t->hosts)
                return ALIKE_UNSURE;
        for (unsigned k = 0; k < ALIKE_LEVELS; k++)
                most[k] = is_most(t, count_of(t, a->places[k]));
        if (role->most & 1u)
                return most[0] ? ALIKE_MOST : most[1] ? ALIKE_NEAR : ALIKE_ODD;
        if (role->most & 2u)
                return most[1] ? ALIKE_MOST : ALIKE_ODD;
        return !(role->most & 4u) ? ALIKE_UNSURE : most[2] ? ALIKE_MOST : ALIKE_ODD;
}
