/* SPDX-License-Identifier: Apache-2.0 */
#include "nic_setting.h"
#include "op.h"

void plan_clear(struct plan *p) {
        free(p->ops);
        *p = PLAN_NULL;
}

int plan_add(struct plan *p, const struct op *op) {
        struct op *grown = reallocarray(p->ops, p->n + 1, sizeof(*p->ops));

        if (!grown)
                return -ENOMEM;
        p->ops = grown;
        p->ops[p->n++] = *op;
        return 0;
}

const char *op_bit_name(const char *subject) {
        const char *blank = strchr(subject, ' '); /* the kernel gives no NIC a name with one */

        return blank && blank[1] ? blank + 1 : NULL;
}

const char *op_check(enum op_kind k) {
        static const char *const names[] = { [OP_SYSCTL] = "sysctl", [OP_MTU] = "nic.mtu",
                                             [OP_ROUTE] = "route.rto_min", [OP_RULE] = "route.source",
                                             [OP_SOURCE_ROUTE] = "route.source" };

        _Static_assert(ELEMENTSOF(names) == OP_NIC_SETTING, "every kind has a name");
        if (k >= OP_NIC_SETTING)
                return nic_setting_check((enum nic_setting_kind) (k - OP_NIC_SETTING));
        return names[k];
}

bool op_is_source(enum op_kind k) {
        return k == OP_RULE || k == OP_SOURCE_ROUTE;
}
