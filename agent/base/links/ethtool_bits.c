/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include "ethtool_bits.h"

/* --- Messages ----------------------------------------------------------------------------------------- */

/* Walks over the messages until one gives other than 0. -ENODATA when none does. */
static int walk(const void *data, size_t len, int (*message)(struct nlmsghdr *h, void *userdata),
                void *userdata) {
        _cleanup_free_ char *copy = NULL; /* aligned, and libnl's attribute functions want it writable */
        size_t at = 0;
        int r = 0;

        if (len == 0)
                return -ENODATA;
        copy = malloc(len);
        if (!copy)
                return -ENOMEM;
        memcpy(copy, data, len);
        while (r == 0 && at < len) {
                struct nlmsghdr *h = (struct nlmsghdr *) (void *) (copy + at);

                if (len - at < sizeof(*h) || h->nlmsg_len < sizeof(*h) || h->nlmsg_len > len - at)
                        return -EBADMSG;
                at += MIN((size_t) NLMSG_ALIGN(h->nlmsg_len), len - at);
                if (h->nlmsg_type != NLMSG_ERROR) {
                        r = message(h, userdata);
                        continue;
                }
                if (!nlmsg_valid_hdr(h, sizeof(struct nlmsgerr)))
                        return -EBADMSG;
                r = ((const struct nlmsgerr *) nlmsg_data(h))->error;
                if (r > 0 || r <= -4096)
                        r = -EBADMSG;
        }
        return r == 0 ? -ENODATA : r;
}

/* The command of a generic netlink message; -EBADMSG when it is none. */
static int command_of(struct nlmsghdr *h) {
        if (!nlmsg_valid_hdr(h, GENL_HDRLEN))
                return -EBADMSG;
        return ((const struct genlmsghdr *) nlmsg_data(h))->cmd;
}

/* --- Bit sets ----------------------------------------------------------------------------------------- */

static const struct nla_policy set_policy[ETHTOOL_A_BITSET_MAX + 1] = {
        [ETHTOOL_A_BITSET_NOMASK] = { .type = NLA_FLAG },
        [ETHTOOL_A_BITSET_BITS] = { .type = NLA_NESTED },
};
static const struct nla_policy bit_policy[ETHTOOL_A_BITSET_BIT_MAX + 1] = {
        [ETHTOOL_A_BITSET_BIT_NAME] = { .type = NLA_STRING, .minlen = 1, .maxlen = ETHTOOL_NAME_MAX },
        [ETHTOOL_A_BITSET_BIT_VALUE] = { .type = NLA_FLAG },
};

/* Which of a bit's properties a set is about. */
enum property {
        CHANGEABLE, /* its list, with a mask, is that of all bits there are */
        REQUESTED,
        ACTIVE,
        FIXED,
        FLAG, /* a private flag: all of the above */
};

static void take_bit(struct ethtool_bit *b, enum property p, bool set) {
        switch (p) {
        case CHANGEABLE:
                b->known = true;
                b->changeable = set;
                break;
        case REQUESTED:
                b->requested = set;
                break;
        case ACTIVE:
                b->active = set;
                break;
        case FIXED:
                if (set)
                        b->changeable = false;
                break;
        case FLAG:
                b->known = b->changeable = true;
                b->requested = b->active = set;
                break;
        }
}

/* A set without a mask lists the bits that are set; one with a mask lists all, and says of each. */
static int take_set(struct nlattr *set, enum property p, struct ethtool_bit *bits, size_t n) {
        struct nlattr *a[ETHTOOL_A_BITSET_MAX + 1], *b[ETHTOOL_A_BITSET_BIT_MAX + 1], *at;
        int left;

        if (!set)
                return 0;
        if (nla_parse_nested(a, ETHTOOL_A_BITSET_MAX, set, set_policy) < 0)
                return -EBADMSG;
        if (!a[ETHTOOL_A_BITSET_BITS])
                return 0; /* none; or the short form, which was not asked for */
        nla_for_each_nested(at, a[ETHTOOL_A_BITSET_BITS], left) {
                char name[ETHTOOL_NAME_MAX + 1];
                bool is_set;

                if (nla_parse_nested(b, ETHTOOL_A_BITSET_BIT_MAX, at, bit_policy) < 0)
                        return -EBADMSG;
                if (!b[ETHTOOL_A_BITSET_BIT_NAME])
                        continue;
                (void) nla_strlcpy(name, b[ETHTOOL_A_BITSET_BIT_NAME], sizeof(name));
                is_set = a[ETHTOOL_A_BITSET_NOMASK] || b[ETHTOOL_A_BITSET_BIT_VALUE];
                for (size_t i = 0; i < n; i++)
                        if (streq(name, bits[i].name))
                                take_bit(&bits[i], p, is_set);
        }
        return 0;
}

/* --- Answers ------------------------------------------------------------------------------------------ */

struct asking {
        enum ethtool_group group;
        int index;
        struct ethtool_bit *bits;
        size_t n;
};

static const struct nla_policy header_policy[ETHTOOL_A_HEADER_MAX + 1] = {
        [ETHTOOL_A_HEADER_DEV_INDEX] = { .type = NLA_U32 },
};

_Static_assert((int) ETHTOOL_A_FEATURES_HEADER == (int) ETHTOOL_A_PRIVFLAGS_HEADER,
               "both have it at the same place");
#define ATTRS_MAX MAX((int) ETHTOOL_A_FEATURES_MAX, (int) ETHTOOL_A_PRIVFLAGS_MAX)

static bool is_about(struct nlattr *header, int index) {
        struct nlattr *a[ETHTOOL_A_HEADER_MAX + 1];

        return header && nla_parse_nested(a, ETHTOOL_A_HEADER_MAX, header, header_policy) == 0 &&
               a[ETHTOOL_A_HEADER_DEV_INDEX] &&
               nla_get_u32(a[ETHTOOL_A_HEADER_DEV_INDEX]) == (uint32_t) index;
}

static int take_sets(struct nlattr *const *a, const struct asking *q) {
        int r;

        if (q->group == ETHTOOL_PRIVATE_FLAGS)
                return take_set(a[ETHTOOL_A_PRIVFLAGS_FLAGS], FLAG, q->bits, q->n);
        r = take_set(a[ETHTOOL_A_FEATURES_HW], CHANGEABLE, q->bits, q->n);
        if (r == 0)
                r = take_set(a[ETHTOOL_A_FEATURES_WANTED], REQUESTED, q->bits, q->n);
        if (r == 0)
                r = take_set(a[ETHTOOL_A_FEATURES_ACTIVE], ACTIVE, q->bits, q->n);
        return r < 0 ? r : take_set(a[ETHTOOL_A_FEATURES_NOCHANGE], FIXED, q->bits, q->n);
}

/* Returns 1 when it is the answer that is looked for. */
static int take_answer(struct nlmsghdr *h, void *userdata) {
        const struct asking *q = userdata;
        struct nlattr *a[ATTRS_MAX + 1];
        int cmd = command_of(h), r;

        if (cmd != (q->group == ETHTOOL_FEATURES ? ETHTOOL_MSG_FEATURES_GET_REPLY :
                                                   ETHTOOL_MSG_PRIVFLAGS_GET_REPLY))
                return MIN(cmd, 0);
        if (nlmsg_parse(h, GENL_HDRLEN, a, ATTRS_MAX, NULL) < 0)
                return -EBADMSG;
        if (!is_about(a[ETHTOOL_A_FEATURES_HEADER], q->index))
                return 0;
        r = take_sets(a, q);
        return r < 0 ? r : 1;
}

int ethtool_parse(const void *data, size_t len, enum ethtool_group g, int index, struct ethtool_bit *bits,
                  size_t n) {
        struct asking q = { .group = g, .index = index, .bits = bits, .n = n };
        int r;

        for (size_t i = 0; i < n; i++)
                bits[i] = (struct ethtool_bit) { .name = bits[i].name };
        r = walk(data, len, take_answer, &q);
        return MIN(r, 0);
}

/* --- The family --------------------------------------------------------------------------------------- */

struct family {
        uint16_t id;
        uint32_t monitor;
};

static const struct nla_policy family_policy[CTRL_ATTR_MAX + 1] = {
        [CTRL_ATTR_FAMILY_ID] = { .type = NLA_U16 },
        [CTRL_ATTR_MCAST_GROUPS] = { .type = NLA_NESTED },
};
static const struct nla_policy group_policy[CTRL_ATTR_MCAST_GRP_MAX + 1] = {
        [CTRL_ATTR_MCAST_GRP_NAME] = { .type = NLA_STRING, .minlen = 1, .maxlen = GENL_NAMSIZ },
        [CTRL_ATTR_MCAST_GRP_ID] = { .type = NLA_U32 },
};

static int take_groups(struct nlattr *groups, struct family *f) {
        struct nlattr *a[CTRL_ATTR_MCAST_GRP_MAX + 1], *at;
        int left;

        nla_for_each_nested(at, groups, left) {
                char name[GENL_NAMSIZ + 1];

                if (nla_parse_nested(a, CTRL_ATTR_MCAST_GRP_MAX, at, group_policy) < 0)
                        return -EBADMSG;
                if (!a[CTRL_ATTR_MCAST_GRP_NAME] || !a[CTRL_ATTR_MCAST_GRP_ID])
                        continue;
                (void) nla_strlcpy(name, a[CTRL_ATTR_MCAST_GRP_NAME], sizeof(name));
                if (streq(name, ETHTOOL_MCGRP_MONITOR_NAME))
                        f->monitor = nla_get_u32(a[CTRL_ATTR_MCAST_GRP_ID]);
        }
        return 0;
}

static int take_family(struct nlmsghdr *h, void *userdata) {
        struct family *f = userdata;
        struct nlattr *a[CTRL_ATTR_MAX + 1];
        int cmd = command_of(h), r = 0;

        if (cmd != CTRL_CMD_NEWFAMILY)
                return MIN(cmd, 0);
        if (nlmsg_parse(h, GENL_HDRLEN, a, CTRL_ATTR_MAX, family_policy) < 0 || !a[CTRL_ATTR_FAMILY_ID])
                return -EBADMSG;
        f->id = nla_get_u16(a[CTRL_ATTR_FAMILY_ID]);
        if (f->id < NLMSG_MIN_TYPE)
                return -EBADMSG;
        if (a[CTRL_ATTR_MCAST_GROUPS])
                r = take_groups(a[CTRL_ATTR_MCAST_GROUPS], f);
        return r < 0 ? r : 1;
}

int ethtool_parse_family(const void *data, size_t len, uint16_t *ret_family, uint32_t *ret_monitor) {
        struct family f = { 0 };
        int r = walk(data, len, take_family, &f);

        if (r < 0)
                return r;
        *ret_family = f.id;
        *ret_monitor = f.monitor;
        return 0;
}
