/* SPDX-License-Identifier: Apache-2.0 */
#include "addresses.h"

#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "netlink.h"

/* --- Addresses ---------------------------------------------------------------------------------------- */

static int parse_address(struct nlmsghdr *h, void *ret_item) {
        struct nlattr *a[IFA_MAX + 1], *own;
        struct address *ret = ret_item;
        const struct ifaddrmsg *m;
        uint32_t flags;
        int size;

        if (!nlmsg_valid_hdr(h, sizeof(*m)) || nlmsg_parse(h, sizeof(*m), a, IFA_MAX, NULL) < 0)
                return -EBADMSG;
        m = nlmsg_data(h);
        if ((m->ifa_family != AF_INET && m->ifa_family != AF_INET6) || m->ifa_scope != RT_SCOPE_UNIVERSE ||
            (m->ifa_flags & IFA_F_DADFAILED))
                return 0;
        size = m->ifa_family == AF_INET ? 4 : 16;
        own = a[IFA_LOCAL] ? a[IFA_LOCAL] : a[IFA_ADDRESS]; /* with a peer, IFA_ADDRESS is his */
        if (!own || nla_len(own) != size || m->ifa_prefixlen > size * 8)
                return -EBADMSG;
        flags = a[IFA_FLAGS] && nla_len(a[IFA_FLAGS]) == sizeof(flags) ? nla_get_u32(a[IFA_FLAGS]) : 0;
        *ret = (struct address) { .family = m->ifa_family,
                                  .index = (int) m->ifa_index,
                                  .prefix_len = m->ifa_prefixlen,
                                  .no_prefix_route = flags & IFA_F_NOPREFIXROUTE };
        memcpy(ret->bytes, nla_data(own), (size_t) size);
        return 1;
}

static const struct dump_table address_dump = {
        .request = { .type = RTM_GETADDR,
                     .head = &(const struct ifaddrmsg){ .ifa_family = AF_UNSPEC },
                     .head_size = sizeof(struct ifaddrmsg),
                     .max = 2 * 1024 * 1024 },
        .recorded = "/netlink/addresses",
        .answer = RTM_NEWADDR,
        .item_size = sizeof(struct address),
        .items_max = ADDRESSES_MAX,
        .parse = parse_address,
};

int addresses_parse(const void *data, size_t len, struct address_table *ret) {
        return dump_table_parse(data, len, &address_dump, &ret->addresses, &ret->n);
}

int addresses_read(const struct host *h, struct address_table *ret) {
        return dump_table_read(h, &address_dump, &ret->addresses, &ret->n);
}

void address_table_clear(struct address_table *t) {
        free(t->addresses);
        *t = ADDRESS_TABLE_NULL;
}

const struct address *address_find(const struct address_table *t, int index, int family,
                                   const uint8_t *bytes) {
        for (size_t i = 0; i < t->n; i++)
                if ((index == 0 || t->addresses[i].index == index) && t->addresses[i].family == family &&
                    memcmp(t->addresses[i].bytes, bytes, family == AF_INET ? 4 : 16) == 0)
                        return &t->addresses[i];
        return NULL;
}

/* --- Rules -------------------------------------------------------------------------------------------- */

#define NOT_SUPPRESSED UINT32_MAX /* -1: the kernel says it of every rule */

static const struct nla_policy rule_policy[FRA_MAX + 1] = {
        [FRA_TABLE] = { .type = NLA_U32 },
        [FRA_PRIORITY] = { .type = NLA_U32 },
        [FRA_PROTOCOL] = { .type = NLA_U8 },
        [FRA_GOTO] = { .type = NLA_U32 },
        [FRA_FWMARK] = { .type = NLA_U32 },
        [FRA_SUPPRESS_PREFIXLEN] = { .type = NLA_U32 },
};

/* Whether the attribute asks for something else than a source; one that is not known does. */
static bool narrows(const struct nlattr *a) {
        switch (nla_type(a)) {
        case FRA_SRC:
        case FRA_TABLE:
        case FRA_PRIORITY:
        case FRA_PROTOCOL:
        case FRA_PAD:
                return false;
        case FRA_SUPPRESS_PREFIXLEN:
        case FRA_SUPPRESS_IFGROUP:
                return nla_len(a) != sizeof(uint32_t) || nla_get_u32(a) != NOT_SUPPRESSED;
        default:
                return true;
        }
}

static bool is_narrow(struct nlmsghdr *h, const struct fib_rule_hdr *m) {
        struct nlattr *a;
        int left;

        if (m->dst_len > 0 || m->tos > 0 || (m->flags & FIB_RULE_INVERT) || m->action == FR_ACT_GOTO ||
            m->action == FR_ACT_NOP)
                return true;
        nlmsg_for_each_attr(a, h, sizeof(*m), left)
                if (narrows(a))
                        return true;
        return false;
}

static enum rule_fit fit_of(const struct nlattr *a) {
        switch (nla_type(a)) {
        case FRA_DST:
        case FRA_GOTO:
        case FRA_FLOW:
        case FRA_FWMASK:
                return RULE_FITS;
        case FRA_FWMARK:
                return nla_get_u32(a) == 0 ? RULE_FITS : RULE_NO_FIT;
        case FRA_IIFNAME: /* what is sent here comes in by lo */
                return nla_len(a) == 3 && memcmp(nla_data(a), "lo", 3) == 0 ? RULE_FITS : RULE_NO_FIT;
        case FRA_OIFNAME:
        case FRA_TUN_ID:
        case FRA_L3MDEV:
                return RULE_NO_FIT;
        default:
                return narrows(a) ? RULE_MAY_FIT : RULE_FITS;
        }
}

static enum rule_fit rule_fit(struct nlmsghdr *h, const struct fib_rule_hdr *m) {
        enum rule_fit fit = m->tos > 0 ? RULE_NO_FIT : RULE_FITS;
        struct nlattr *a;
        int left;

        nlmsg_for_each_attr(a, h, sizeof(*m), left)
                fit = MAX(fit, nla_type(a) == FRA_SUPPRESS_PREFIXLEN ? RULE_FITS : fit_of(a));
        return fit;
}

static int take_prefix(const struct nlattr *a, uint8_t len, int size, uint8_t dest[16]) {
        if (len > size * 8 || (a && nla_len(a) != size) || (len > 0 && !a))
                return -EBADMSG;
        if (a)
                memcpy(dest, nla_data(a), (size_t) size);
        return 0;
}

/* Returns 1 for a rule of IPv4 or IPv6, 0 for another. */
static int parse_rule(struct nlmsghdr *h, void *ret_item) {
        struct nlattr *a[FRA_MAX + 1];
        const struct fib_rule_hdr *m;
        struct rule r = { 0 };
        uint32_t longest;
        int size;

        if (!nlmsg_valid_hdr(h, sizeof(*m)) || nlmsg_parse(h, sizeof(*m), a, FRA_MAX, rule_policy) < 0)
                return -EBADMSG;
        m = nlmsg_data(h);
        if (m->family != AF_INET && m->family != AF_INET6)
                return 0;
        size = m->family == AF_INET ? 4 : 16;
        if (take_prefix(a[FRA_SRC], m->src_len, size, r.src) < 0 ||
            take_prefix(a[FRA_DST], m->dst_len, size, r.dst) < 0)
                return -EBADMSG;
        r.family = m->family;
        r.src_len = m->src_len;
        r.dst_len = m->dst_len;
        r.table = a[FRA_TABLE] ? nla_get_u32(a[FRA_TABLE]) : m->table;
        r.priority = a[FRA_PRIORITY] ? nla_get_u32(a[FRA_PRIORITY]) : 0;
        r.protocol = a[FRA_PROTOCOL] ? nla_get_u8(a[FRA_PROTOCOL]) : 0;
        r.action = m->action;
        r.narrow = is_narrow(h, m);
        r.inverted = m->flags & FIB_RULE_INVERT;
        r.fit = rule_fit(h, m);
        r.target = a[FRA_GOTO] ? nla_get_u32(a[FRA_GOTO]) : 0;
        longest = a[FRA_SUPPRESS_PREFIXLEN] ? nla_get_u32(a[FRA_SUPPRESS_PREFIXLEN]) : NOT_SUPPRESSED;
        r.suppressed = longest == NOT_SUPPRESSED ? 0 : (uint8_t) (MIN(longest, 128U) + 1);
        *(struct rule *) ret_item = r;
        return 1;
}

static const struct dump_table rule_dump = {
        .request = { .type = RTM_GETRULE,
                     .head = &(const struct fib_rule_hdr){ .family = AF_UNSPEC },
                     .head_size = sizeof(struct fib_rule_hdr),
                     .max = 1024 * 1024 },
        .recorded = "/netlink/rules",
        .answer = RTM_NEWRULE,
        .item_size = sizeof(struct rule),
        .items_max = RULES_MAX,
        .parse = parse_rule,
};

int rules_parse(const void *data, size_t len, struct rule_table *ret) {
        return dump_table_parse(data, len, &rule_dump, &ret->rules, &ret->n);
}

int rules_read(const struct host *h, struct rule_table *ret) {
        return dump_table_read(h, &rule_dump, &ret->rules, &ret->n);
}

void rule_table_clear(struct rule_table *t) {
        free(t->rules);
        *t = RULE_TABLE_NULL;
}

bool prefix_covers(const uint8_t *prefix, uint8_t len, const uint8_t *address) {
        uint8_t bits = len % 8, mask = (uint8_t) (0xff00U >> bits);

        if (memcmp(prefix, address, len / 8) != 0)
                return false;
        return bits == 0 || ((prefix[len / 8] ^ address[len / 8]) & mask) == 0;
}

bool rule_covers(const struct rule *r, int family, const uint8_t *address) {
        return r->family == family && prefix_covers(r->src, r->src_len, address);
}

void address_subnet(const struct address *a, uint8_t ret[static 16]) {
        uint8_t whole = a->prefix_len / 8, bits = a->prefix_len % 8;

        memset(ret, 0, 16);
        memcpy(ret, a->bytes, whole);
        if (bits > 0)
                ret[whole] = a->bytes[whole] & (uint8_t) (0xff00U >> bits);
}
