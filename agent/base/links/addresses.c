/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include "addresses.h"
#include "dump.h"

#define ADDRESSES_DUMP "/netlink/addresses"
#define DUMP_MAX (1024 * 1024)

/* Returns 1 for an address that is wanted, 0 for another. */
static int parse_address(struct nlmsghdr *h, struct address *ret) {
        struct nlattr *a[IFA_MAX + 1], *own;
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

static int take_message(struct nlmsghdr *h, void *userdata) {
        struct address_table *t = userdata;
        struct address address, *grown;
        int e;

        if (h->nlmsg_type != RTM_NEWADDR)
                return -EBADMSG;
        e = parse_address(h, &address);
        if (e <= 0)
                return e;
        if (t->n == ADDRESSES_MAX)
                return -E2BIG;
        grown = reallocarray(t->addresses, t->n + 1, sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        t->addresses = grown;
        t->addresses[t->n++] = address;
        return 0;
}

int addresses_parse(const void *data, size_t len, struct address_table *ret) {
        _cleanup_addresses_ struct address_table t = ADDRESS_TABLE_NULL;
        int r = -EBADMSG;

        if (len <= DUMP_MAX)
                r = dump_parse(data, len, take_message, &t);
        if (r < 0)
                return r;
        *ret = t;
        t = ADDRESS_TABLE_NULL;
        return 0;
}

int addresses_read(const struct host *h, struct address_table *ret) {
        const struct ifaddrmsg head = { .ifa_family = AF_UNSPEC };
        const struct dump_request request = {
                .type = RTM_GETADDR, .head = &head, .head_size = sizeof(head), .max = DUMP_MAX
        };
        int r = -EINTR;

        for (int i = 0; i < DUMP_TRIES && (r == -EINTR || r == -EAGAIN); i++) {
                _cleanup_free_ char *dump = NULL;
                size_t len = 0;

                r = h->real_root ? dump_read(&request, &dump, &len) :
                                   dump_read_recorded(h, ADDRESSES_DUMP, DUMP_MAX, &dump, &len);
                if (r == 0)
                        r = addresses_parse(dump, len, ret);
        }
        return r;
}

void address_table_clear(struct address_table *t) {
        free(t->addresses);
        *t = ADDRESS_TABLE_NULL;
}
