/* SPDX-License-Identifier: Apache-2.0 */
#include "behind.h"

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
static unsigned explains(const struct captured_thread *t, const struct place *p) {
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
                unsigned weight = explains(t, &p);

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
