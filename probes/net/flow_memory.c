/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_memory.h"

#include "grow.h"

struct flow_memory {
        struct flow_mark *marks; /* side by side */
        size_t n, size;
        uint32_t *places; /* by cookie, open addressing: number of the mark + 1; 0: free */
        size_t n_places;  /* a power of two, at least twice n */
};

int flow_memory_new(struct flow_memory **ret) {
        struct flow_memory *m = calloc(1, sizeof(*m));

        if (!m)
                return -ENOMEM;
        *ret = m;
        return 0;
}

struct flow_memory *flow_memory_free(struct flow_memory *m) {
        if (!m)
                return NULL;
        free(m->marks);
        free(m->places);
        free(m);
        return NULL;
}

static void place(struct flow_memory *m, size_t i) {
        size_t at = m->marks[i].cookie * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (m->n_places - 1);

        while (m->places[at] != 0)
                at = (at + 1) & (m->n_places - 1);
        m->places[at] = (uint32_t) i + 1;
}

static void place_all(struct flow_memory *m) {
        if (m->n_places > 0)
                memset(m->places, 0, m->n_places * sizeof(*m->places));
        for (size_t i = 0; i < m->n; i++)
                place(m, i);
}

void flow_memory_clear(struct flow_memory *m) {
        m->n = 0;
        place_all(m);
}

static int make_room(struct flow_memory *m) {
        size_t wanted = MAX(m->n_places, (size_t) 64);
        uint32_t *places;
        int r;

        if (m->n == FLOW_SOCKETS_MAX)
                return -ENOSPC;
        r = grow(&m->marks, &m->size, m->n + 1, sizeof(*m->marks));
        if (r < 0)
                return r;
        while (wanted < 2 * (m->n + 1))
                wanted *= 2;
        if (wanted == m->n_places)
                return 0;
        places = realloc(m->places, wanted * sizeof(*places));
        if (!places)
                return -ENOMEM;
        m->places = places;
        m->n_places = wanted;
        place_all(m);
        return 0;
}

int flow_memory_find(struct flow_memory *m, uint64_t cookie, struct flow_mark **ret, bool *ret_known) {
        size_t at;
        int r;

        if (m->n_places > 0) {
                at = cookie * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (m->n_places - 1);
                for (; m->places[at] != 0; at = (at + 1) & (m->n_places - 1))
                        if (m->marks[m->places[at] - 1].cookie == cookie) {
                                *ret = &m->marks[m->places[at] - 1];
                                *ret_known = true;
                                return 0;
                        }
        }
        r = make_room(m);
        if (r < 0)
                return r;
        m->marks[m->n] = (struct flow_mark){ .cookie = cookie, .link = FLOW_MEMORY_NO_LINK };
        *ret = &m->marks[m->n];
        *ret_known = false;
        place(m, m->n++);
        return 0;
}

void flow_memory_forget_older(struct flow_memory *m, unsigned dump) {
        size_t kept = 0;

        for (size_t i = 0; i < m->n; i++)
                if (m->marks[i].seen == dump)
                        m->marks[kept++] = m->marks[i];
        if (kept == m->n)
                return;
        m->n = kept;
        place_all(m);
}

void flow_memory_forget_link(struct flow_memory *m, uint32_t link) {
        for (size_t i = 0; i < m->n; i++)
                if (m->marks[i].link == link)
                        m->marks[i].link = FLOW_MEMORY_NO_LINK;
}
