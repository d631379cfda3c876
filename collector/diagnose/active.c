/* SPDX-License-Identifier: Apache-2.0 */
#include "active.h"

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
