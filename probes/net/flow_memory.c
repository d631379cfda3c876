/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_memory.h"

#include <assert.h>

/* By cookie, open addressing: a mark stands at its home or, where that is taken, at the next free place. */
struct flow_memory {
        struct flow_mark *marks; /* used ones have a number of a dump */
        size_t n, size;          /* size: a power of two, at least twice n */
};

int flow_memory_new(struct flow_memory **ret) {
        *ret = calloc(1, sizeof(**ret));
        return *ret ? 0 : -ENOMEM;
}

struct flow_memory *flow_memory_free(struct flow_memory *m) {
        if (m)
                free(m->marks);
        free(m);
        return NULL;
}

void flow_memory_clear(struct flow_memory *m) {
        if (m->size > 0)
                memset(m->marks, 0, m->size * sizeof(*m->marks));
        m->n = 0;
}

static size_t home_of(const struct flow_memory *m, uint64_t cookie) {
        return cookie * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (m->size - 1);
}

/* Where it is, or where it would be. */
static struct flow_mark *find_mark(const struct flow_memory *m, uint64_t cookie) {
        size_t at = home_of(m, cookie);

        while (m->marks[at].seen != 0 && m->marks[at].cookie != cookie)
                at = (at + 1) & (m->size - 1);
        return &m->marks[at];
}

static int make_room_for_mark(struct flow_memory *m) {
        struct flow_memory larger = { .n = m->n, .size = MAX(2 * m->size, (size_t) 64) };

        if (2 * (m->n + 1) <= m->size)
                return 0;
        larger.marks = calloc(larger.size, sizeof(*larger.marks));
        if (!larger.marks)
                return -ENOMEM;
        for (size_t i = 0; i < m->size; i++)
                if (m->marks[i].seen != 0)
                        *find_mark(&larger, m->marks[i].cookie) = m->marks[i];
        free(m->marks);
        *m = larger;
        return 0;
}

int flow_memory_find(struct flow_memory *m, uint64_t cookie, unsigned dump, struct flow_mark **ret,
                     bool *ret_known) {
        struct flow_mark *mark;
        int r = m->n < FLOW_SOCKETS_MAX ? make_room_for_mark(m) : 0;

        assert(dump != 0); /* 0 marks a free place */
        if (r < 0)
                return r;
        mark = find_mark(m, cookie);
        *ret_known = mark->seen != 0;
        if (!*ret_known && m->n == FLOW_SOCKETS_MAX)
                return -ENOSPC;
        if (!*ret_known) {
                *mark = (struct flow_mark){ .cookie = cookie, .link = FLOW_MEMORY_NO_LINK };
                m->n++;
        }
        mark->seen = dump;
        *ret = mark;
        return 0;
}

const struct flow_mark *flow_memory_look(const struct flow_memory *m, uint64_t cookie) {
        const struct flow_mark *mark = m->size > 0 ? find_mark(m, cookie) : NULL;

        return mark && mark->seen != 0 ? mark : NULL;
}

/* What stands behind it because its home was taken moves up. */
static void remove_at(struct flow_memory *m, size_t at) {
        size_t mask = m->size - 1;

        for (size_t i = (at + 1) & mask; m->marks[i].seen != 0; i = (i + 1) & mask)
                if (((i - home_of(m, m->marks[i].cookie)) & mask) >= ((i - at) & mask)) {
                        m->marks[at] = m->marks[i];
                        at = i;
                }
        m->marks[at].seen = 0;
        m->n--;
}

void flow_memory_forget_older(struct flow_memory *m, unsigned dump) {
        for (size_t i = 0; i < m->size;)
                if (m->marks[i].seen != 0 && m->marks[i].seen != dump)
                        remove_at(m, i); /* a mark from behind may have moved up to this place */
                else
                        i++;
}

void flow_memory_forget_link(struct flow_memory *m, uint32_t link) {
        for (size_t i = 0; i < m->size; i++)
                if (m->marks[i].link == link)
                        m->marks[i].link = FLOW_MEMORY_NO_LINK;
}
