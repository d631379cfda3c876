/* SPDX-License-Identifier: Apache-2.0 */
#include "cores.h"

/* By program, then launch, then counter: what is equal lies together on every level. */
static int compare_cores(const void *x, const void *y) {
        const struct captured_core *a = *(const struct captured_core *const *) x,
                                   *b = *(const struct captured_core *const *) y;

        return COMPARE(a->fingerprint, b->fingerprint) ?: COMPARE(a->launch, b->launch) ?:
                                                          COMPARE(a->pc, b->pc);
}

/* How alike two cores are: on 1 level (program), 2 (and launch), 3 (and counter). */
static unsigned alike_levels(const struct captured_core *a, const struct captured_core *b) {
        if (a->fingerprint != b->fingerprint)
                return 0;
        if (a->launch != b->launch)
                return 1;
        return a->pc == b->pc ? 3 : 2;
}

/* The longest run of cores that are alike on a level, within [from, to). */
static size_t longest_run(const struct captured_core **cores, size_t from, size_t to, unsigned level,
                          size_t *ret_n) {
        size_t best = from, n = 0;

        for (size_t i = from, k; i < to; i = k) {
                for (k = i + 1; k < to && alike_levels(cores[i], cores[k]) >= level; k++)
                        ;
                if (k - i > n) {
                        n = k - i;
                        best = i;
                }
        }
        *ret_n = n;
        return best;
}

int cores_survey(const struct evidence *e, struct cores *ret) {
        _cleanup_free_ const struct captured_core **cores = NULL;
        size_t n = 0, k = 0, at, same;
        struct cores all = { 0 };

        for (size_t i = 0; i < e->n_hosts; i++)
                n += e->hosts[i].last ? e->hosts[i].last->n_cores : 0;
        cores = calloc(n + 1, sizeof(*cores));
        if (!cores)
                return -ENOMEM;
        for (size_t i = 0; i < e->n_hosts; i++)
                for (size_t c = 0; e->hosts[i].last && c < e->hosts[i].last->n_cores; c++)
                        cores[k++] = &e->hosts[i].last->cores[c];
        all.n = n;
        if (n > 0) {
                qsort(cores, n, sizeof(*cores), compare_cores);
                at = longest_run(cores, 0, n, 1, &same);
                all.program = cores[at]->fingerprint;
                all.clear = same * 2 > n;
                at = longest_run(cores, at, at + same, 2, &k);
                all.launch = cores[at]->launch;
                all.clear_launch = k * 2 > same;
                at = longest_run(cores, at, at + k, 3, &all.n_same);
                all.pc = cores[at]->pc;
                all.location = cores[at]->location;
                all.clear_pc = all.n_same * 2 > k;
        }
        *ret = all;
        return 0;
}

enum core_state core_judge(const struct cores *all, const struct captured_core *c) {
        if (c->error)
                return CORE_ERROR;
        if (!all->clear)
                return CORE_LIKE_OTHERS;
        if (c->fingerprint != all->program)
                return CORE_OTHER_PROGRAM;
        if (!all->clear_launch)
                return CORE_LIKE_OTHERS;
        if (c->launch != all->launch)
                return c->launch < all->launch ? CORE_BEHIND : CORE_LIKE_OTHERS;
        if (!all->clear_pc || c->pc == all->pc)
                return CORE_LIKE_OTHERS;
        return c->pc == 0 ? CORE_NO_INPUT : CORE_ODD_COUNTER;
}

enum core_state cores_of_host(const struct cores *all, const struct seen_host *h,
                              const struct captured_core **ret) {
        enum core_state worst = CORE_LIKE_OTHERS;

        for (size_t i = 0; h->last && i < h->last->n_cores; i++) {
                enum core_state s = core_judge(all, &h->last->cores[i]);

                if (s > worst) {
                        worst = s;
                        *ret = &h->last->cores[i];
                }
        }
        return worst;
}
