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
        *ret = (struct address) { .family = m->ifa_family,
                                  .index = (int) m->ifa_index,
                                  .prefix_len = m->ifa_prefixlen };
        memcpy(ret->bytes, nla_data(own), (size_t) size);
        return 1;
}

static const struct dump_table address_dump = {
        .request = { .type = RTM_GETADDR,
                     .head = &(const struct ifaddrmsg){ .ifa_family = AF_UNSPEC },
                     .head_size = sizeof(struct ifaddrmsg),
                     .max = 1024 * 1024 },
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

/* --- Rules -------------------------------------------------------------------------------------------- */

#define NOT_SUPPRESSED UINT32_MAX /* -1: the kernel says it of every rule */

static const struct nla_policy rule_policy[FRA_MAX + 1] = {
        [FRA_TABLE] = { .type = NLA_U32 },
        [FRA_PRIORITY] = { .type = NLA_U32 },
        [FRA_PROTOCOL] = { .type = NLA_U8 },
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

/* Returns 1 for a rule of IPv4 or IPv6, 0 for another. */
static int parse_rule(struct nlmsghdr *h, void *ret_item) {
        struct nlattr *a[FRA_MAX + 1];
        const struct fib_rule_hdr *m;
        struct rule r = { 0 };
        int size;

        if (!nlmsg_valid_hdr(h, sizeof(*m)) || nlmsg_parse(h, sizeof(*m), a, FRA_MAX, rule_policy) < 0)
                return -EBADMSG;
        m = nlmsg_data(h);
        if (m->family != AF_INET && m->family != AF_INET6)
                return 0;
        size = m->family == AF_INET ? 4 : 16;
        if (m->src_len > size * 8 || (a[FRA_SRC] && nla_len(a[FRA_SRC]) != size) ||
            (m->src_len > 0 && !a[FRA_SRC]))
                return -EBADMSG;
        r.family = m->family;
        r.src_len = m->src_len;
        if (a[FRA_SRC])
                memcpy(r.src, nla_data(a[FRA_SRC]), (size_t) size);
        r.table = a[FRA_TABLE] ? nla_get_u32(a[FRA_TABLE]) : m->table;
        r.priority = a[FRA_PRIORITY] ? nla_get_u32(a[FRA_PRIORITY]) : 0;
        r.protocol = a[FRA_PROTOCOL] ? nla_get_u8(a[FRA_PROTOCOL]) : 0;
        r.action = m->action;
        r.narrow = is_narrow(h, m);
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

bool rule_covers(const struct rule *r, int family, const uint8_t *address) {
        uint8_t bits = r->src_len % 8, mask = (uint8_t) (0xff00U >> bits);

        if (r->family != family || memcmp(r->src, address, r->src_len / 8) != 0)
                return false;
        return bits == 0 || ((r->src[r->src_len / 8] ^ address[r->src_len / 8]) & mask) == 0;
}
