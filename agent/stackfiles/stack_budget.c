/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_budget.h"

#define HOUR (3600 * USEC_PER_SEC)

void stack_budget_begin(struct stack_budget *b) {
        for (size_t i = 0; i < b->n; i++)
                b->owners[i].told = 0;
}

/* What came back meanwhile, to all alike. */
static void give_back(struct stack_budget *b, usec_t now) {
        usec_t passed = now - b->at;
        uint64_t back = passed >= 24 * HOUR ? UINT64_MAX : passed * STACK_BUDGET_HOUR / HOUR;
        size_t kept = 0;

        if (b->n > 0 && back / b->n == 0)
                return; /* too soon */
        b->at = now;
        for (size_t i = 0; i < b->n; i++) {
                struct stack_owner o = b->owners[i];

                o.spent -= MIN(o.spent, back / b->n);
                if (o.spent > 0)
                        b->owners[kept++] = o;
        }
        b->n = kept;
}

static struct stack_owner *owner_of(struct stack_budget *b, uid_t uid) {
        for (size_t i = 0; i < b->n; i++)
                if (b->owners[i].uid == uid)
                        return &b->owners[i];
        if (b->n == STACK_OWNERS_MAX)
                return &b->owners[b->n - 1];
        b->owners[b->n] = (struct stack_owner){ .uid = uid };
        return &b->owners[b->n++];
}

bool stack_budget_take(struct stack_budget *b, usec_t now, uid_t uid, size_t bytes) {
        struct stack_owner *o;
        uint64_t left = STACK_BUDGET_BYTES;

        give_back(b, now);
        o = owner_of(b, uid);
        for (size_t i = 0; i < b->n; i++)
                left -= MIN(left, b->owners[i].spent);
        bytes += STACK_EVENT_BYTES;
        if (o->told >= STACK_LOOK_SNAPSHOTS_MAX || o->spent + bytes > left)
                return false;
        o->spent += bytes;
        o->told++;
        return true;
}
