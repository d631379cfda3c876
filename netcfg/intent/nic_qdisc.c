/* SPDX-License-Identifier: Apache-2.0 */
#include "nic_qdisc.h"

#include "check_words.h"

bool nic_qdisc_judge(const struct qdisc_table *t, const struct link *nic, struct finding *ret) {
        const struct qdisc *limit = qdisc_that_limits(t, nic->index), *root = qdisc_root(t, nic->index);
        char words[QDISC_WORDS_MAX], drops[24];

        if (!limit && !root)
                return false;
        (void) snprintf(drops, sizeof(drops), "%" PRIu64, qdisc_drops(t, nic->index));
        check_begin(ret, limit ? WORDS_NIC_QDISC_LIMITS : WORDS_NIC_QDISC, nic->name);
        finding_set(ret->found, "%s", qdisc_words(limit ? limit : root, words));
        check_say(ret, limit ? WORDS_NIC_QDISC_LIMITS : WORDS_NIC_QDISC, drops);
        return true;
}
