/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_table.h"

#include "grow.h"

/* --- Hashes -------------------------------------------------------------------------------------------- */

static inline uint64_t mix(uint64_t h, uint64_t v) {
        h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
        return h ^ (h >> 29);
}

static inline uint32_t fold(uint64_t h) {
        return (uint32_t) (h ^ (h >> 32));
}

/* Eight bytes at a time; the last eight may overlap those before. */
static uint32_t hash_text(const char *s, size_t len) {
        uint64_t h = len, v = 0;

        if (len < sizeof(v)) {
                for (size_t i = 0; i < len; i++)
                        v = v << 8 | (uint8_t) s[i];
                return fold(mix(h, v));
        }
        for (size_t i = 0; i + sizeof(v) < len; i += sizeof(v)) {
                memcpy(&v, s + i, sizeof(v));
                h = mix(h, v);
        }
        memcpy(&v, s + len - sizeof(v), sizeof(v));
        return fold(mix(h, v));
}

static uint32_t hash_frame(const struct stack_frame *f) {
        return fold(mix(mix(f->address, (uint64_t) f->file << 32 | f->function),
                        (uint64_t) f->kind << 32 | f->line));
}

static uint32_t hash_stack(const uint32_t *frames, size_t n) {
        uint64_t h = n;

        for (size_t i = 0; i < n; i++)
                h = mix(h, frames[i]);
        return fold(h);
}

static void index_put(struct hash_index *x, uint32_t hash, uint32_t number) {
        uint32_t i = hash & x->mask;

        while (x->slots[i].next)
                i = (i + 1) & x->mask;
        x->slots[i] = (struct hash_slot){ hash, number + 1 };
}

static int index_grow(struct hash_index *x) {
        struct hash_index bigger = { .mask = x->slots ? x->mask * 2 + 1 : 63 };

        bigger.slots = calloc((size_t) bigger.mask + 1, sizeof(*bigger.slots));
        if (!bigger.slots)
                return -ENOMEM;
        for (uint32_t i = 0; x->slots && i <= x->mask; i++)
                if (x->slots[i].next)
                        index_put(&bigger, x->slots[i].hash, x->slots[i].next - 1);
        bigger.n = x->n;
        free(x->slots);
        *x = bigger;
        return 0;
}

/* Room for one more. Half of the slots stay free: what is looked up lies in its own slot mostly. */
static inline int index_reserve(struct hash_index *x) {
        return x->slots && x->n < x->mask / 2 ? 0 : index_grow(x);
}

/* The next slot of this hash from *at on (start with the hash itself); 0 when there is none. */
static inline uint32_t index_next(const struct hash_index *x, uint32_t hash, uint32_t *at) {
        for (uint32_t i = *at & x->mask; x->slots[i].next; i = (i + 1) & x->mask)
                if (x->slots[i].hash == hash) {
                        *at = i + 1;
                        return x->slots[i].next;
                }
        return 0;
}

/* --- The table ----------------------------------------------------------------------------------------- */

void stack_table_clear(struct stack_table *t) {
        free(t->text);
        free(t->string_at);
        free(t->frames);
        free(t->frames_of);
        free(t->stacks);
        free(t->string_index.slots);
        free(t->frame_index.slots);
        free(t->stack_index.slots);
        *t = STACK_TABLE_NULL;
}

static int append_string(struct stack_table *t, const char *s, size_t len, uint32_t hash, uint32_t *ret) {
        int r;

        if (t->n_strings >= STACK_TABLE_MAX || t->text_len + len + 1 > UINT32_MAX)
                return -E2BIG;
        r = index_reserve(&t->string_index);
        if (r == 0)
                r = grow(&t->text, &t->text_size, t->text_len + len + 1, 1);
        if (r == 0)
                r = grow(&t->string_at, &t->strings_size, t->n_strings + 1, sizeof(*t->string_at));
        if (r < 0)
                return r;
        memcpy(t->text + t->text_len, s, len);
        t->text[t->text_len + len] = 0;
        t->string_at[t->n_strings] = (uint32_t) t->text_len;
        t->text_len += len + 1;
        index_put(&t->string_index, hash, (uint32_t) t->n_strings);
        t->string_index.n++;
        *ret = (uint32_t) t->n_strings++;
        return 0;
}

static bool find_string(const struct stack_table *t, const char *s, size_t len, uint32_t hash,
                        uint32_t *ret) {
        uint32_t at = hash, found;

        if (!t->string_index.slots)
                return false;
        while ((found = index_next(&t->string_index, hash, &at)) != 0) {
                size_t from = t->string_at[found - 1],
                       end = found < t->n_strings ? t->string_at[found] : t->text_len;

                if (end - from - 1 == len && memcmp(t->text + from, s, len) == 0) {
                        *ret = found - 1;
                        return true;
                }
        }
        return false;
}

bool stack_table_find(const struct stack_table *t, const char *s, size_t len, uint32_t *ret) {
        return find_string(t, s, len, hash_text(s, len), ret);
}

static int add_string(struct stack_table *t, const char *s, size_t len, uint32_t *ret) {
        uint32_t hash = hash_text(s, len);

        return find_string(t, s, len, hash, ret) ? 0 : append_string(t, s, len, hash, ret);
}

int stack_table_string(struct stack_table *t, const char *s, size_t len, uint32_t *ret) {
        uint32_t empty;
        int r = t->n_strings == 0 ? add_string(t, "", 0, &empty) : 0;

        if (len > STACK_TEXT_MAX || memchr(s, 0, len))
                return -EINVAL;
        return r < 0 ? r : add_string(t, s, len, ret);
}

static bool frame_is_valid(const struct stack_table *t, const struct stack_frame *f) {
        return f->file < t->n_strings && f->function < t->n_strings && f->kind < _FRAME_KIND_MAX;
}

int stack_table_frame(struct stack_table *t, const struct stack_frame *f, uint32_t *ret) {
        uint32_t hash = hash_frame(f), at = hash, found;
        int r = frame_is_valid(t, f) ? index_reserve(&t->frame_index) : -EINVAL;

        if (r < 0)
                return r;
        while ((found = index_next(&t->frame_index, hash, &at)) != 0)
                if (memcmp(&t->frames[found - 1], f, sizeof(*f)) == 0) {
                        *ret = found - 1;
                        return 0;
                }
        if (t->n_frames >= STACK_TABLE_MAX)
                return -E2BIG;
        r = grow(&t->frames, &t->frames_size, t->n_frames + 1, sizeof(*t->frames));
        if (r < 0)
                return r;
        t->frames[t->n_frames] = *f;
        index_put(&t->frame_index, hash, (uint32_t) t->n_frames);
        t->frame_index.n++;
        *ret = (uint32_t) t->n_frames++;
        return 0;
}

static int add_stack(struct stack_table *t, const uint32_t *frames, size_t n, uint32_t hash, uint32_t *ret) {
        int r;

        if (t->n_stacks >= STACK_TABLE_MAX)
                return -E2BIG;
        r = grow(&t->frames_of, &t->frames_of_size, t->n_frames_of + n, sizeof(*t->frames_of));
        if (r == 0)
                r = grow(&t->stacks, &t->stacks_size, t->n_stacks + 1, sizeof(*t->stacks));
        if (r < 0)
                return r;
        if (n > 0)
                memcpy(t->frames_of + t->n_frames_of, frames, n * sizeof(*frames));
        t->stacks[t->n_stacks] = (struct stack_span){ t->n_frames_of, (uint32_t) n, hash };
        t->n_frames_of += n;
        index_put(&t->stack_index, hash, (uint32_t) t->n_stacks);
        t->stack_index.n++;
        *ret = (uint32_t) t->n_stacks++;
        return 0;
}

int stack_table_stack(struct stack_table *t, const uint32_t *frames, size_t n, uint32_t *ret) {
        uint32_t hash = hash_stack(frames, n), at = hash, found;
        int r = index_reserve(&t->stack_index);

        if (n > STACK_FRAMES_MAX)
                return -EINVAL;
        for (size_t i = 0; i < n; i++)
                if (frames[i] >= t->n_frames)
                        return -EINVAL;
        if (r < 0)
                return r;
        while ((found = index_next(&t->stack_index, hash, &at)) != 0) {
                const struct stack_span *s = &t->stacks[found - 1];

                if (s->n == n &&
                    (n == 0 || memcmp(t->frames_of + s->first, frames, n * sizeof(*frames)) == 0)) {
                        *ret = found - 1;
                        return 0;
                }
        }
        return add_stack(t, frames, n, hash, ret);
}

const char *stack_table_text(const struct stack_table *t, uint32_t string) {
        return string < t->n_strings ? t->text + t->string_at[string] : "";
}
