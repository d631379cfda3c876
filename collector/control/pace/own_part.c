/* SPDX-License-Identifier: Apache-2.0 */
#include "own_part.h"

#include <math.h>

#include "medians.h"

static bool is_known(const struct own_part *p) {
        return isfinite(p->share) && p->share >= 0 && p->looks >= OWN_LOOKS;
}

int own_part_judge(const struct own_part *parts, size_t n, struct own_verdict *ret) {
        struct own_verdict v = { .host = SIZE_MAX };
        _cleanup_free_ double *scratch = NULL;
        double spread, chance, p;
        size_t known = 0;

        *ret = v;
        if (n > OWN_HOSTS_MAX)
                return -EINVAL;
        scratch = calloc(n + 1, sizeof(*scratch));
        if (!scratch)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                if (is_known(&parts[i]) && (v.host == SIZE_MAX || parts[i].share > parts[v.host].share))
                        v.host = i;
        for (size_t i = 0; i < n; i++)
                if (is_known(&parts[i]) && i != v.host)
                        scratch[known++] = parts[i].share;
        if (known < 2)
                return 0;
        v.share = parts[v.host].share;
        v.others = median_of(scratch, known);
        spread = deviation_of(scratch, known, v.others);
        p = MIN(MAX((v.share + v.others) / 2, 0.01), 0.99);
        chance = sqrt(p * (1 - p) / (double) parts[v.host].looks);
        v.found = v.share - v.others >= MAX(OWN_LEAST, OWN_SPREADS * spread) &&
                  v.share - v.others >= chance * (sqrt(2 * log((double) known + 1)) + OWN_CHANCE);
        v.alone = v.share > OWN_MOST && v.others < v.share / 2;
        *ret = v;
        return 0;
}

/* --- Why -------------------------------------------------------------------------------------------------
 */

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
