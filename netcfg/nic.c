/* SPDX-License-Identifier: Apache-2.0 */

#include "ethtool.h"
#include "nic.h"
#include "request.h"

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

/* --- MTU and sizes ------------------------------------------------------------------------------------ */

static enum link_size size_of(enum op_kind k) {
        return (enum link_size) (k - OP_NIC_SETTING - NIC_SIZE);
}

static uint32_t number_of(const struct link *l, enum op_kind k) {
        return k == OP_MTU ? l->mtu : l->sizes[size_of(k)];
}

static int find_link(const struct host *h, int index, struct link *ret) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        int r = links_read(h, &t);
        const struct link *l = r == 0 ? link_by_index(&t, index) : NULL;

        if (l)
                *ret = *l;
        return r < 0 ? r : l ? 0 : -ENODEV;
}

/* The kernel lets a limit up to 64 KiB for all families stand for IPv4, too (netif_set_gso_max_size()): that
 * of IPv4 goes with it, so that it stays what it is. */
static int put_size(struct nl_msg *m, const struct link *l, enum link_size size, uint32_t bytes) {
        enum link_size ipv4 = size == LINK_GSO_MAX_SIZE || size == LINK_GSO_IPV4_MAX_SIZE ?
                                      LINK_GSO_IPV4_MAX_SIZE : LINK_GRO_IPV4_MAX_SIZE;
        int r = nla_put_u32(m, link_size_attr(size), bytes);

        if (r == 0 && ipv4 != size && l->sizes[ipv4] > 0)
                r = nla_put_u32(m, link_size_attr(ipv4), l->sizes[ipv4]);
        return r;
}

static int set_number(const struct link *l, enum op_kind k, uint32_t number) {
        _cleanup_(nlmsg_freep) struct nl_msg *m = nlmsg_alloc_simple(RTM_SETLINK, NLM_F_REQUEST | NLM_F_ACK);
        struct ifinfomsg info = { .ifi_family = AF_UNSPEC, .ifi_index = l->index };

        if (!m || nlmsg_append(m, &info, sizeof(info), NLMSG_ALIGNTO) < 0 ||
            (k == OP_MTU ? nla_put_u32(m, IFLA_MTU, number) : put_size(m, l, size_of(k), number)) < 0)
                return -ENOMEM;
        return request_do(m);
}

static int apply_number(const struct host *h, const struct op *op) {
        unsigned long number = strtoul(op->to, NULL, 10);
        struct link l;
        int r;

        if (number == 0 || number > UINT32_MAX)
                return -EINVAL;
        r = find_link(h, op->index, &l);
        if (r == 0)
                r = set_number(&l, op->kind, (uint32_t) number);
        if (r == 0)
                r = find_link(h, op->index, &l);
        if (r < 0)
                return r;
        return number_of(&l, op->kind) == number ? 0 : -EIO;
}

/* --- Both --------------------------------------------------------------------------------------------- */

static bool is_bit(enum op_kind k) {
        return k >= OP_NIC_SETTING && k < OP_NIC_SETTING + NIC_SIZE;
}

int nic_apply(const struct host *h, const struct op *op) {
        return is_bit(op->kind) ? apply_bit(h, op->kind - OP_NIC_SETTING, op) : apply_number(h, op);
}

int nic_read(const struct host *h, enum op_kind k, const struct link *l, const char *subject,
             char buf[static 16]) {
        _cleanup_ethtool_ struct ethtool e = ETHTOOL_NULL;
        const char *name = op_bit_name(subject);
        int r;

        if (!is_bit(k)) {
                (void) snprintf(buf, 16, "%u", number_of(l, k));
                return number_of(l, k) > 0 ? 0 : -ENODEV;
        }
        if (!name)
                return -EINVAL;
        r = ethtool_open(h, &e);
        return r < 0 ? r : read_bit(&e, k - OP_NIC_SETTING, l->index, name, buf);
}
