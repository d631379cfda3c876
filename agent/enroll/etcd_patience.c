/* SPDX-License-Identifier: Apache-2.0 */
#include "backoff.h"
#include "etcd_patience.h"

#define DOUBLINGS_MAX 2U
#define NOWHERE_ELSE 4 /* times as long, where there is one member of etcd only */
#define SLOWEST 4      /* times the slowest answer of late */
#define IN_VAIN (1 * USEC_PER_SEC)

usec_t etcd_patience_deadline(const struct etcd_patience *p) {
        usec_t span;

        if (p->joined)
                span = MIN(p->slowest * SLOWEST, p->left / 2);
        else if (p->alone)
                span = MAX(p->slowest * SLOWEST, p->least * NOWHERE_ELSE);
        else
                span = MAX(p->slowest * SLOWEST, p->least << MIN(p->failures, DOUBLINGS_MAX));
        return MIN(MAX(span, p->least), PATIENCE_MOST);
}

usec_t etcd_patience_wait(const struct etcd_patience *p, usec_t spent, uint64_t random) {
        usec_t wait = backoff_next(p->failures, random);

        if (p->joined) {
                usec_t most = MAX(p->left / 4, BACKOFF_BASE); /* the end of a lease is no reason to ask without a pause */

                return p->left > 0 ? MIN(wait, most / 2 + random % (most / 2)) : wait;
        }
        if (spent >= IN_VAIN)
                wait = MAX(wait, spent / 2 + random % spent);
        return MIN(wait, PATIENCE_MOST);
}

usec_t etcd_patience_slowest(usec_t slowest, usec_t spent) {
        return MAX(spent, slowest - slowest / 4);
}
