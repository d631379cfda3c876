/* SPDX-License-Identifier: Apache-2.0 */
#include "addresses.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "netlink.h"

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

static const struct dump_table table = {
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
        return dump_table_parse(data, len, &table, &ret->addresses, &ret->n);
}

int addresses_read(const struct host *h, struct address_table *ret) {
        return dump_table_read(h, &table, &ret->addresses, &ret->n);
}

void address_table_clear(struct address_table *t) {
        free(t->addresses);
        *t = ADDRESS_TABLE_NULL;
}
