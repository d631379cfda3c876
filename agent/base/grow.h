/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Arrays that double. */
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
