/* SPDX-License-Identifier: Apache-2.0 */
#include "straggler.h"

#include "medians.h"

#define SPREADS 4.0

/* One window: the host that stands out, or SIZE_MAX. */
static size_t window_outlier(const double *values, size_t n, double *scratch, double *ret_others) {
        double middle, spread;
        size_t known = 0, top = SIZE_MAX;

        for (size_t i = 0; i < n; i++)
                if (isfinite(values[i]) && values[i] >= 0 && (top == SIZE_MAX || values[i] > values[top]))
                        top = i;
        for (size_t i = 0; i < n; i++)
                if (i != top && isfinite(values[i]) && values[i] >= 0)
                        scratch[known++] = values[i];
        if (known < 2)
                return SIZE_MAX;
        middle = median_of(scratch, known);
        spread = deviation_of(scratch, known, middle);
        *ret_others = middle;
        return values[top] >= middle * STRAGGLER_RATIO &&
                               values[top] - middle >= MAX(STRAGGLER_MARGIN, SPREADS * spread)
                     ? top
                     : SIZE_MAX;
}

int straggler_judge(const double *busy, size_t windows, size_t n, struct straggler_verdict *ret) {
        struct straggler_verdict v = { .host = SIZE_MAX };
        _cleanup_free_ double *scratch = NULL;
        const double *last;
        double sum = 0, others_sum = 0;

        *ret = v;
        if (n > STRAGGLER_HOSTS_MAX)
                return -EINVAL;
        if (windows < STRAGGLER_WINDOWS || n < 3)
                return 0;
        scratch = calloc(n, sizeof(*scratch));
        if (!scratch)
                return -ENOMEM;
        last = busy + (windows - 1) * n;
        for (size_t w = 0; w < STRAGGLER_WINDOWS; w++) { /* the last window says whom it is about */
                const double *at = last - w * n;
                double others = 0;
                size_t odd = window_outlier(at, n, scratch, &others);

                if (w == 0)
                        v.host = odd;
                if (odd == SIZE_MAX || odd != v.host)
                        continue;
                v.windows++;
                sum += at[odd];
                others_sum += others;
        }
        if (v.host == SIZE_MAX || v.windows < STRAGGLER_WINDOWS_NEEDED)
                return 0;
        v.found = true;
        v.busy = sum / v.windows;
        v.others = others_sum / v.windows;
        *ret = v;
        return 0;
}
