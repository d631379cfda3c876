/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include "ethtool.h"
#include "nic.h"
#include "request.h"

DEFINE_CLEANUP(struct nl_msg *, nlmsg_free)

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

/* --- Sizes -------------------------------------------------------------------------------------------- */

static int find_link(const struct host *h, int index, struct link *ret) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        int r = links_read(h, &t);

        for (size_t i = 0; r == 0 && i < t.n; i++)
                if (t.links[i].index == index) {
                        *ret = t.links[i];
                        return 0;
                }
        return r < 0 ? r : -ENODEV;
}

static int set_size(const struct link *l, enum link_size size, uint32_t bytes) {
        _cleanup_(nlmsg_freep) struct nl_msg *m = nlmsg_alloc_simple(RTM_SETLINK, NLM_F_REQUEST | NLM_F_ACK);
        struct ifinfomsg info = { .ifi_family = AF_UNSPEC, .ifi_index = l->index };
        /* The kernel lets a limit up to 64 KiB for all families stand for IPv4, too
         * (netif_set_gso_max_size()): that of IPv4 goes with it, so that it stays what it is. */
        enum link_size ipv4 = size == LINK_GSO_MAX_SIZE || size == LINK_GSO_IPV4_MAX_SIZE ?
                                      LINK_GSO_IPV4_MAX_SIZE : LINK_GRO_IPV4_MAX_SIZE;

        if (!m || nlmsg_append(m, &info, sizeof(info), NLMSG_ALIGNTO) < 0 ||
            nla_put_u32(m, link_size_attr(size), bytes) < 0)
                return -ENOMEM;
        if (ipv4 != size && l->sizes[ipv4] > 0 && nla_put_u32(m, link_size_attr(ipv4), l->sizes[ipv4]) < 0)
                return -ENOMEM;
        return request_do(m);
}

static int apply_size(const struct host *h, enum link_size size, const struct op *op) {
        unsigned long bytes = strtoul(op->to, NULL, 10);
        struct link l;
        int r;

        if (bytes == 0 || bytes > UINT32_MAX)
                return -EINVAL;
        r = find_link(h, op->index, &l);
        if (r == 0)
                r = set_size(&l, size, (uint32_t) bytes);
        if (r == 0)
                r = find_link(h, op->index, &l);
        if (r < 0)
                return r;
        return l.sizes[size] == bytes ? 0 : -EIO;
}

/* --- Both --------------------------------------------------------------------------------------------- */

int nic_apply(const struct host *h, const struct op *op) {
        enum nic_setting_kind k;

        if (!op_is_nic_setting(op->kind, &k))
                return -EINVAL;
        return k < NIC_SIZE ? apply_bit(h, k, op) : apply_size(h, k - NIC_SIZE, op);
}

int nic_read(const struct host *h, enum nic_setting_kind k, const struct link *l, const char *subject,
             char buf[static 16]) {
        _cleanup_ethtool_ struct ethtool e = ETHTOOL_NULL;
        const char *name = op_bit_name(subject);
        int r;

        if (k >= NIC_SIZE) {
                if (l->sizes[k - NIC_SIZE] == 0)
                        return -ENODEV;
                (void) snprintf(buf, 16, "%u", l->sizes[k - NIC_SIZE]);
                return 0;
        }
        if (!name)
                return -EINVAL;
        r = ethtool_open(h, &e);
        return r < 0 ? r : read_bit(&e, k, l->index, name, buf);
}
