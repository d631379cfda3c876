/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Arrays that double, and places in sorted ones. */
#include "base.h"

/* Room for n items of item bytes in *array, which has *size of them. -E2BIG beyond what memory can name. */
static inline int grow(void *array, size_t *size, size_t n, size_t item) {
        void **a = array, *p;
        size_t wanted = MAX(*size, (size_t) 16);

        if (n <= *size)
                return 0;
        while (wanted < n)
                wanted *= 2;
        if (wanted > SIZE_MAX / 2 / item)
                return -E2BIG;
        p = realloc(*a, wanted * item);
        if (!p)
                return -ENOMEM;
        *a = p;
        *size = wanted;
        return 0;
}

/* Room for one more item behind the n of *array, which keeps no size of its own: for short ones. */
static inline int grow_by_one(void *array, size_t n, size_t item) {
        void **a = array, *p = reallocarray(*a, n + 1, item);

        if (!p)
                return -ENOMEM;
        *a = p;
        return 0;
}

/* Room for one more item at this place of the *n. -E2BIG, -ENOMEM. */
static inline int grow_at(void *array, size_t *size, size_t *n, size_t at, size_t item) {
        void **a = array;
        int r = grow(array, size, *n + 1, item);

        if (r < 0)
                return r;
        memmove((char *) *a + (at + 1) * item, (char *) *a + at * item, (*n - at) * item);
        ++*n;
        return 0;
}

/* The first place of n sorted ones that is not below what is looked for; n: all are. `below` says it of the
 * place `at`: SORTED_PLACE(n, i, list[i].id < id). */
#define SORTED_PLACE(n, at, below)                               \
        ({                                                       \
                size_t _from = 0, _to = (n);                     \
                                                                 \
                while (_from < _to) {                            \
                        size_t at = _from + (_to - _from) / 2;   \
                                                                 \
                        if (below)                               \
                                _from = at + 1;                  \
                        else                                     \
                                _to = at;                        \
                }                                                \
                _from;                                           \
        })
