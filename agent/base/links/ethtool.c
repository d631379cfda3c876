/* SPDX-License-Identifier: Apache-2.0 */
#include "ethtool.h"

#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>

#include "netlink.h"

#define RECORDED_MAX (1024 * 1024)

_Static_assert(ETHTOOL_HEAD_SIZE == NLMSG_HDRLEN + GENL_HDRLEN, "two headers");

/* --- Messages ----------------------------------------------------------------------------------------- */

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

static void forget_bits(struct ethtool_bit *bits, size_t n) {
        for (size_t i = 0; i < n; i++)
                bits[i] = (struct ethtool_bit) { .name = bits[i].name };
}

int ethtool_parse(const void *data, size_t len, enum ethtool_group g, int index, struct ethtool_bit *bits,
                  size_t n) {
        struct asking q = { .group = g, .index = index, .bits = bits, .n = n };

        forget_bits(bits, n);
        return netlink_find(data, len, take_answer, &q);
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
        int r = netlink_find(data, len, take_family, &f);

        if (r < 0)
                return r;
        *ret_family = f.id;
        *ret_monitor = f.monitor;
        return 0;
}

/* --- Asking ------------------------------------------------------------------------------------------- */

static struct nl_msg *message_new(int type, int flags, uint8_t cmd, uint8_t version) {
        const struct genlmsghdr head = { .cmd = cmd, .version = version };

        return netlink_message(type, flags, &head, sizeof(head));
}

static int find_family(struct ethtool *e) {
        _cleanup_(nlmsg_freep) struct nl_msg *m = message_new(GENL_ID_CTRL, 0, CTRL_CMD_GETFAMILY, 1);
        struct family f = { 0 };
        int r;

        if (!m || nla_put_string(m, CTRL_ATTR_FAMILY_NAME, ETHTOOL_GENL_NAME) < 0)
                return -ENOMEM;
        r = netlink_ask(e->sock, m, take_family, &f);
        e->family = f.id;
        e->monitor = f.monitor;
        return r == -ENOENT ? -EPROTONOSUPPORT : r;
}

int ethtool_open(const struct host *h, struct ethtool *ret) {
        _cleanup_ethtool_ struct ethtool e = { .host = h };
        int r = h->real_root ? netlink_open(NETLINK_GENERIC, &e.sock) : 0;

        if (r == 0 && e.sock && nl_socket_set_nonblocking(e.sock) < 0)
                r = -EIO;
        if (r == 0 && e.sock)
                r = find_family(&e);
        if (r < 0)
                return r;
        *ret = e;
        e = ETHTOOL_NULL;
        return 0;
}

void ethtool_close(struct ethtool *e) {
        if (e->sock)
                nl_socket_free(e->sock);
        *e = ETHTOOL_NULL;
}

/* --- Reading ------------------------------------------------------------------------------------------ */

static int put_header(struct nl_msg *m, int index, uint32_t flags) {
        struct nlattr *header = nla_nest_start(m, ETHTOOL_A_FEATURES_HEADER | NLA_F_NESTED);

        if (!header || nla_put_u32(m, ETHTOOL_A_HEADER_DEV_INDEX, (uint32_t) index) < 0 ||
            (flags && nla_put_u32(m, ETHTOOL_A_HEADER_FLAGS, flags) < 0))
                return -ENOMEM;
        nla_nest_end(m, header);
        return 0;
}

static int read_real(struct ethtool *e, struct asking *q) {
        uint8_t cmd = q->group == ETHTOOL_FEATURES ? ETHTOOL_MSG_FEATURES_GET : ETHTOOL_MSG_PRIVFLAGS_GET;
        _cleanup_(nlmsg_freep) struct nl_msg *m = message_new(e->family, 0, cmd, ETHTOOL_GENL_VERSION);

        if (!m || put_header(m, q->index, 0) < 0)
                return -ENOMEM;
        forget_bits(q->bits, q->n);
        return netlink_ask(e->sock, m, take_answer, q);
}

int ethtool_read(struct ethtool *e, enum ethtool_group g, int index, struct ethtool_bit *bits, size_t n) {
        static const char *const recorded[_ETHTOOL_GROUP_MAX] = {
                [ETHTOOL_FEATURES] = "/netlink/features",
                [ETHTOOL_PRIVATE_FLAGS] = "/netlink/private-flags",
        };
        _cleanup_free_ char *answer = NULL;
        size_t len = 0;
        int r;

        if (e->sock)
                return read_real(e, &(struct asking){ .group = g, .index = index, .bits = bits, .n = n });
        r = dump_read_recorded(e->host, recorded[g], RECORDED_MAX, &answer, &len);
        return r < 0 ? r : ethtool_parse(answer, len, g, index, bits, n);
}

/* --- Writing ------------------------------------------------------------------------------------------ */

/* A set with a mask of one bit: the others stay. */
static int put_bit(struct nl_msg *m, int attr, const char *name, bool on) {
        struct nlattr *set = nla_nest_start(m, attr | NLA_F_NESTED), *bits, *bit;

        bits = set ? nla_nest_start(m, ETHTOOL_A_BITSET_BITS | NLA_F_NESTED) : NULL;
        bit = bits ? nla_nest_start(m, ETHTOOL_A_BITSET_BITS_BIT | NLA_F_NESTED) : NULL;
        if (!bit || nla_put_string(m, ETHTOOL_A_BITSET_BIT_NAME, name) < 0 ||
            (on && nla_put_flag(m, ETHTOOL_A_BITSET_BIT_VALUE) < 0))
                return -ENOMEM;
        nla_nest_end(m, bit);
        nla_nest_end(m, bits);
        nla_nest_end(m, set);
        return 0;
}

int ethtool_set(struct ethtool *e, enum ethtool_group g, int index, const char *name, bool on) {
        bool feature = g == ETHTOOL_FEATURES;
        _cleanup_(nlmsg_freep) struct nl_msg *m = NULL;
        int r;

        if (!e->sock)
                return -EROFS;
        m = message_new(e->family, NLM_F_ACK, feature ? ETHTOOL_MSG_FEATURES_SET : ETHTOOL_MSG_PRIVFLAGS_SET,
                        ETHTOOL_GENL_VERSION);
        if (!m || put_header(m, index, feature ? ETHTOOL_FLAG_OMIT_REPLY : 0) < 0 ||
            put_bit(m, feature ? ETHTOOL_A_FEATURES_WANTED : ETHTOOL_A_PRIVFLAGS_FLAGS, name, on) < 0)
                return -ENOMEM;
        r = netlink_ask(e->sock, m, NULL, NULL);
        return r == -ENODATA ? 0 : r; /* an acknowledgement and no more */
}

bool ethtool_tells_bits(const void *head, size_t len) {
        struct genlmsghdr g;

        if (len < ETHTOOL_HEAD_SIZE)
                return true; /* not understood: look */
        memcpy(&g, (const char *) head + NLMSG_HDRLEN, sizeof(g));
        return g.cmd == ETHTOOL_MSG_FEATURES_NTF || g.cmd == ETHTOOL_MSG_PRIVFLAGS_NTF;
}
