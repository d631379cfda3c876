/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "ethtool.h"
#include "netlink.h"
#include "processes.h"
#include "route_write.h"

void kernel_read(const struct host *h, const struct intent *i, struct found *ret) {
        *ret = FOUND_NULL;
        plan_read_sysctls(h, i, ret);
        ret->links_error = links_read(h, &ret->links);
        plan_read_rp_filters(h, i, ret);
        ret->nic_settings_error = nic_settings_read(h, i, &ret->links, &ret->nic_settings);
        ret->routes_error = routes_read(h, &ret->routes);
        ret->rules_error = rules_read(h, &ret->rules);
        ret->addresses_error = addresses_read(h, &ret->addresses);
        ret->qdiscs_error = qdiscs_read(h, &ret->qdiscs);
}

/* --- Rights ------------------------------------------------------------------------------------------- */

/* Where a sysctl or parameter is. */
static int op_path(const struct plan_op *op, char buf[static 128]) {
        return op->kind == OP_SYSCTL ? intent_sysctl_path(op->subject, buf, 128)
                                     : intent_parameter_path(op->subject, buf);
}

static int permits_file(const struct host *h, const struct plan_op *op) {
        _cleanup_close_ int fd = -1;
        char path[128];
        int r;

        r = op_path(op, path);
        if (r < 0)
                return r;
        fd = host_open_file(h, path, O_WRONLY); /* procfs checks the right at open(2), sysfs the mode */
        return fd < 0 ? fd : 0;
}

static int permits_op(const struct host *h, const struct plan_op *op) {
        if (op->kind == OP_SYSCTL || op->kind == OP_PARAMETER)
                return permits_file(h, op);
        /* Where nobody can tell, the write itself will. */
        return capability_has(CAP_NET_ADMIN) == 0 ? -EPERM : 0;
}

int kernel_permits(const struct host *h, const struct plan *p, const struct plan_op **ret_op) {
        for (size_t i = 0; i < p->n; i++) {
                const struct plan_op *op = &p->ops[i];
                int r = h->real_root ? permits_op(h, op) : -EROFS;

                if (r == -EPERM || r == -EACCES || r == -EROFS) {
                        *ret_op = op;
                        return r;
                }
        }
        return 0;
}

/* --- Sysctls and routes ---------------------------------------------------------------------------- */

static int apply_file(const struct host *h, const struct plan_op *op) {
        char path[128], after[sizeof(op->to)];
        int r;

        r = op_path(op, path);
        if (r == 0)
                r = host_write(h, path, op->to);
        if (r == 0)
                r = host_read(h, path, after, sizeof(after), NULL);
        if (r < 0)
                return r;
        intent_sysctl_normalize(after);
        return streq(after, op->to) ? 0 : -EIO;
}

static int apply_route(const struct host *h, const struct plan_op *op) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        int r = links_read(h, &t);

        return r < 0 ? r : route_set(h, &t, op->subject, op->to);
}

/* --- Features and private flags ----------------------------------------------------------------------- */

static enum ethtool_group ethtool_group_of(enum nic_setting_kind k) {
        return k == NIC_FEATURE ? ETHTOOL_FEATURES : ETHTOOL_PRIVATE_FLAGS;
}

static int read_bit(struct ethtool *e, enum nic_setting_kind k, int index, const char *name,
                    char buf[static 16]) {
        struct ethtool_bit bit = { .name = name };
        int r = ethtool_read(e, ethtool_group_of(k), index, &bit, 1);

        if (r < 0)
                return r == -EOPNOTSUPP ? -ENODEV : r;
        if (!bit.known)
                return -ENODEV;
        (void) snprintf(buf, 16, "%s", bit.active ? "on" : "off");
        return 0;
}

static int apply_bit(const struct host *h, enum nic_setting_kind k, const struct plan_op *op) {
        _cleanup_ethtool_ struct ethtool e = ETHTOOL_NULL;
        const char *name = op_bit_name(op->subject);
        char now[16];
        int r;

        if (!name || (!streq(op->to, "on") && !streq(op->to, "off")))
                return -EINVAL;
        r = ethtool_open(h, &e);
        if (r == 0)
                r = ethtool_set(&e, ethtool_group_of(k), op->index, name, streq(op->to, "on"));
        if (r == 0)
                r = read_bit(&e, k, op->index, name, now);
        if (r < 0)
                return r;
        return streq(now, op->to) ? 0 : -EIO;
}

/* --- MTU ---------------------------------------------------------------------------------------------- */

static int find_link(const struct host *h, int index, struct link *ret) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        int r = links_read(h, &t);
        const struct link *l = r == 0 ? link_by_index(&t, index) : NULL;

        if (l)
                *ret = *l;
        return r < 0 ? r : l ? 0 : -ENODEV;
}

static int set_mtu(int index, uint32_t mtu) {
        const struct ifinfomsg info = { .ifi_family = AF_UNSPEC, .ifi_index = index };
        _cleanup_(nlmsg_freep) struct nl_msg *m =
                netlink_message(RTM_SETLINK, NLM_F_ACK, &info, sizeof(info));

        return !m || nla_put_u32(m, IFLA_MTU, mtu) < 0 ? -ENOMEM : netlink_do(m);
}

static int apply_mtu(const struct host *h, const struct plan_op *op) {
        unsigned long mtu = strtoul(op->to, NULL, 10);
        struct link l;
        int r;

        if (mtu == 0 || mtu > UINT32_MAX)
                return -EINVAL;
        r = find_link(h, op->index, &l);
        if (r == 0)
                r = set_mtu(op->index, (uint32_t) mtu);
        if (r == 0)
                r = find_link(h, op->index, &l);
        if (r < 0)
                return r;
        return l.mtu == mtu ? 0 : -EIO;
}

int nic_read(const struct host *h, enum op_kind k, const struct link *l, const char *subject,
             char buf[static 16]) {
        _cleanup_ethtool_ struct ethtool e = ETHTOOL_NULL;
        const char *name = op_bit_name(subject);
        int r;

        if (k == OP_MTU) {
                (void) snprintf(buf, 16, "%u", l->mtu);
                return l->mtu > 0 ? 0 : -ENODEV;
        }
        if (!name)
                return -EINVAL;
        r = ethtool_open(h, &e);
        return r < 0 ? r : read_bit(&e, k - OP_NIC_SETTING, l->index, name, buf);
}

/* --- Any of them ----------------------------------------------------------------------------------- */

int kernel_apply(const struct host *h, const struct plan_op *op) {
        if (!h->real_root)
                return -EROFS;
        switch (op->kind) {
        case OP_SYSCTL:
        case OP_PARAMETER:
                return apply_file(h, op);
        case OP_ROUTE:
                return apply_route(h, op);
        case OP_RULE:
        case OP_MAIN_RULE:
                return source_write_rule(h, op);
        case OP_SOURCE_ROUTE:
                return source_write_route(h, op);
        case OP_MTU:
        case OP_NIC_SETTING:
        case _OP_KIND_MAX:
                break;
        }
        return op->kind == OP_MTU ? apply_mtu(h, op) : apply_bit(h, op->kind - OP_NIC_SETTING, op);
}
