/* SPDX-License-Identifier: Apache-2.0 */
#include "nic.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "ethtool.h"
#include "netlink.h"

/* --- Features and private flags ----------------------------------------------------------------------- */

static enum ethtool_group group_of(enum nic_setting_kind k) {
        return k == NIC_FEATURE ? ETHTOOL_FEATURES : ETHTOOL_PRIVATE_FLAGS;
}

static int read_bit(struct ethtool *e, enum nic_setting_kind k, int index, const char *name,
                    char buf[static 16]) {
        struct ethtool_bit bit = { .name = name };
        int r = ethtool_read(e, group_of(k), index, &bit, 1);

        if (r < 0)
                return r == -EOPNOTSUPP ? -ENODEV : r;
        if (!bit.known)
                return -ENODEV;
        (void) snprintf(buf, 16, "%s", bit.active ? "on" : "off");
        return 0;
}

static int apply_bit(const struct host *h, enum nic_setting_kind k, const struct op *op) {
        _cleanup_ethtool_ struct ethtool e = ETHTOOL_NULL;
        const char *name = op_bit_name(op->subject);
        char now[16];
        int r;

        if (!name || (!streq(op->to, "on") && !streq(op->to, "off")))
                return -EINVAL;
        r = ethtool_open(h, &e);
        if (r == 0)
                r = ethtool_set(&e, group_of(k), op->index, name, streq(op->to, "on"));
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

static int apply_mtu(const struct host *h, const struct op *op) {
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

/* --- Both --------------------------------------------------------------------------------------------- */

int nic_apply(const struct host *h, const struct op *op) {
        return op->kind == OP_MTU ? apply_mtu(h, op) : apply_bit(h, op->kind - OP_NIC_SETTING, op);
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
