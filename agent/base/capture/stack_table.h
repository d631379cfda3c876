/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Strings, frames and whole stacks, each kept once and named by a small number. What is equal has the same
 * number within one table. Numbers count from 0 in the order of first appearance; string 0 is "".
 * Bounded: -E2BIG when a table is full. Nothing is taken out again.
 */
#include "base.h"

#define STACK_NONE UINT32_MAX
#define STACK_FRAMES_MAX 4096u     /* of one stack: tpu-stack reads no more */
#define STACK_TEXT_MAX 4096u       /* bytes of one string */
#define STACK_TABLE_MAX (1u << 26) /* strings, frames or stacks of one table */

enum frame_kind {
        FRAME_PYTHON, /* file, function (qualified name), line */
        FRAME_NATIVE, /* file is the module, function the symbol. For a diagnosis "libtorch.so", line and
                         address 0 */
        FRAME_KERNEL, /* function only */
        _FRAME_KIND_MAX,
};

struct stack_frame {
        uint32_t file, function; /* strings */
        uint32_t line;           /* 0: not known; not of a Python frame: the offset into the function */
        uint32_t kind;           /* enum frame_kind */
        uint64_t address;        /* of a native frame: from the module's start; in no module, the pc */
};

struct hash_slot {
        uint32_t hash, next; /* next: number + 1; 0: the slot is free */
};
struct hash_index {
        struct hash_slot *slots;
        uint32_t n, mask; /* slots: mask + 1, or none */
};

struct stack_span {
        uint64_t first; /* in frames_of */
        uint32_t n, hash;
};

struct stack_table {
        char *text; /* all strings, each with its NUL */
        size_t text_len, text_size;
        uint32_t *string_at; /* string → where in text */
        size_t n_strings, strings_size;
        struct stack_frame *frames;
        size_t n_frames, frames_size;
        uint32_t *frames_of; /* all stacks, outermost frame first */
        size_t n_frames_of, frames_of_size;
        struct stack_span *stacks;
        size_t n_stacks, stacks_size;
        struct hash_index string_index, frame_index, stack_index;
};
#define STACK_TABLE_NULL ((struct stack_table){ 0 })
void stack_table_clear(struct stack_table *t);
#define _cleanup_stack_table_ _cleanup_(stack_table_clear)

/* Each returns 0 and the number of what is now in the table, -E2BIG, -EINVAL (a number that is none; a text
 * longer than STACK_TEXT_MAX), -ENOMEM. */
int stack_table_string(struct stack_table *t, const char *s, size_t len, uint32_t *ret);
/* Only looks: false when it is not there. */
bool stack_table_find(const struct stack_table *t, const char *s, size_t len, uint32_t *ret);
int stack_table_frame(struct stack_table *t, const struct stack_frame *f, uint32_t *ret);
int stack_table_stack(struct stack_table *t, const uint32_t *frames, size_t n, uint32_t *ret);

/* "" for a number that is none. */
const char *stack_table_text(const struct stack_table *t, uint32_t string);
static inline const uint32_t *stack_table_frames(const struct stack_table *t, uint32_t stack) {
        return t->stacks[stack].n > 0 ? t->frames_of + t->stacks[stack].first : NULL;
}
