/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/capability.h>

#include "processes.h"
#include "kernel.h"
#include "nic.h"
#include "route.h"
#include "source_write.h"

void kernel_read(const struct host *h, const struct intent *i, struct found *ret) {
        *ret = FOUND_NULL;
        plan_read_sysctls(h, i, ret);
        ret->links_error = links_read(h, &ret->links);
        plan_read_rp_filters(h, i, ret);
        ret->nic_settings_error = nic_settings_read(h, i, &ret->links, &ret->nic_settings);
        ret->routes_error = routes_read(h, &ret->routes);
        ret->rules_error = rules_read(h, &ret->rules);
        ret->addresses_error = addresses_read(h, &ret->addresses);
}

/* --- Rights ------------------------------------------------------------------------------------------- */

static int permits_sysctl(const struct host *h, const char *name) {
        _cleanup_close_ int fd = -1;
        char path[128];
        int r;

        r = intent_sysctl_path(name, path, sizeof(path));
        if (r < 0)
                return r;
        fd = host_open_file(h, path, O_WRONLY); /* procfs checks the right at open(2) */
        return fd < 0 ? fd : 0;
}

static int permits(const struct host *h, const struct op *op) {
        if (op->kind == OP_SYSCTL)
                return permits_sysctl(h, op->subject);
        /* Where nobody can tell, the write itself will. */
        return capability_has(CAP_NET_ADMIN) == 0 ? -EPERM : 0;
}

int kernel_permits(const struct host *h, const struct plan *p, const struct op **ret_op) {
        for (size_t i = 0; i < p->n; i++) {
                const struct op *op = &p->ops[i];
                int r = h->real_root ? permits(h, op) : -EROFS;

                if (r == -EPERM || r == -EACCES || r == -EROFS) {
                        *ret_op = op;
                        return r;
                }
        }
        return 0;
}

/* --- Writes ------------------------------------------------------------------------------------------- */

static int apply_sysctl(const struct host *h, const struct op *op) {
        struct found_sysctl after;
        char path[128];
        int r;

        r = intent_sysctl_path(op->subject, path, sizeof(path));
        if (r == 0)
                r = host_write(h, path, op->to);
        if (r == 0)
                r = plan_read_sysctl(h, op->subject, &after);
        if (r < 0)
                return r;
        return streq(after.value, op->to) ? 0 : -EIO;
}

static int apply_route(const struct host *h, const struct op *op) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        int r = links_read(h, &t);

        return r < 0 ? r : route_set(h, &t, op->subject, op->to);
}

int kernel_apply(const struct host *h, const struct op *op) {
        if (!h->real_root)
                return -EROFS;
        switch (op->kind) {
        case OP_SYSCTL:
                return apply_sysctl(h, op);
        case OP_ROUTE:
                return apply_route(h, op);
        case OP_RULE:
                return source_write_rule(h, op);
        case OP_SOURCE_ROUTE:
                return source_write_route(h, op);
        case OP_MTU:
        case OP_NIC_SETTING:
        case _OP_KIND_MAX:
                break;
        }
        return nic_apply(h, op);
}
