/* SPDX-License-Identifier: Apache-2.0 */
#include "straggler.h"

#include <math.h>

/* A normal distribution's standard deviation is this many median absolute deviations. */
#define NORMAL_MAD 1.4826
#define SPREADS 4.0

static int compare_numbers(const void *a, const void *b) {
        return COMPARE(*(const double *) a, *(const double *) b);
}

double median_of(double *values, size_t n) {
        qsort(values, n, sizeof(*values), compare_numbers);
        if (n == 0)
                return 0;
        return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The largest value; of the others the median, and how far they usually lie from it. What is negative or no
 * number is not known. SIZE_MAX: fewer than three are. */
static size_t largest_of(const double *values, size_t n, double *scratch, double *ret_others,
                         double *ret_spread) {
        size_t known = 0, top = SIZE_MAX;

        for (size_t i = 0; i < n; i++)
                if (isfinite(values[i]) && values[i] >= 0 && (top == SIZE_MAX || values[i] > values[top]))
                        top = i;
        for (size_t i = 0; i < n; i++)
                if (i != top && isfinite(values[i]) && values[i] >= 0)
                        scratch[known++] = values[i];
        if (known < 2)
                return SIZE_MAX;
        *ret_others = median_of(scratch, known);
        for (size_t i = 0; i < known; i++)
                scratch[i] = fabs(scratch[i] - *ret_others);
        *ret_spread = median_of(scratch, known) * NORMAL_MAD;
        return top;
}

/* --- Windows ------------------------------------------------------------------------------------------ */

/* One window: the host that stands out, or SIZE_MAX. */
static size_t window_outlier(const double *values, size_t n, double *scratch, double *ret_others) {
        double spread;
        size_t top = largest_of(values, n, scratch, ret_others, &spread);

        return top != SIZE_MAX && values[top] >= *ret_others * STRAGGLER_RATIO &&
                               values[top] - *ret_others >= MAX(STRAGGLER_MARGIN, SPREADS * spread)
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

/* --- Own parts of a step --------------------------------------------------------------------------- */

int own_part_judge(const struct own_part *parts, size_t n, struct own_verdict *ret) {
        struct own_verdict v = { .host = SIZE_MAX };
        _cleanup_free_ double *scratch = NULL;
        double *values, spread, chance, p;
        size_t known = 0;

        *ret = v;
        if (n > OWN_HOSTS_MAX)
                return -EINVAL;
        scratch = calloc(2 * n + 1, sizeof(*scratch));
        if (!scratch)
                return -ENOMEM;
        values = scratch + n;
        for (size_t i = 0; i < n; i++) {
                values[i] = parts[i].looks >= OWN_LOOKS ? parts[i].share : -1;
                known += isfinite(values[i]) && values[i] >= 0;
        }
        v.host = largest_of(values, n, scratch, &v.others, &spread);
        if (v.host == SIZE_MAX)
                return 0;
        v.share = parts[v.host].share;
        p = MIN(MAX((v.share + v.others) / 2, 0.01), 0.99);
        chance = sqrt(p * (1 - p) / (double) parts[v.host].looks);
        v.found = v.share - v.others >= MAX(OWN_LEAST, OWN_SPREADS * spread) &&
                  v.share - v.others >= chance * (sqrt(2 * log((double) known)) + OWN_CHANCE);
        v.alone = v.share > OWN_MOST && v.others < v.share / 2;
        *ret = v;
        return 0;
}

enum own_cost own_cause(const struct own_costs *host, const struct own_costs *others, double extra) {
        enum own_cost best = _OWN_COST_MAX;
        double most = OWN_EXPLAINS * extra;

        for (enum own_cost c = 0; c < _OWN_COST_MAX; c++) {
                double more = host->seconds[c] - others->seconds[c];

                if (isfinite(more) && more > most) {
                        most = more;
                        best = c;
                }
        }
        return best;
}

const char *own_cause_text(const struct own_costs *host, const struct own_costs *others, double extra) {
        static const char *const words[_OWN_COST_MAX] = {
                [OWN_MEMORY] = "it waits for memory (the kernel reclaims it)",
                [OWN_CPU] = "it waits for a CPU that others have",
                [OWN_DISK] = "it waits for a disk",
                [OWN_WORK] = "it computes more",
        };
        enum own_cost best = own_cause(host, others, extra);

        if (best != _OWN_COST_MAX)
                return words[best];
        if (host->retransmits - others->retransmits >= OWN_RETRANSMITS) /* false for NAN */
                return "its packets are lost on the path (tpuctl net there)";
        return "neither CPU, memory, disk nor path explain it: its chips, or a wait that is not counted";
}
