/* SPDX-License-Identifier: Apache-2.0 */
#include "links.h"

#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "netlink.h"

/* One RTM_NEWLINK is about 1.5 KiB without statistics; 8 KiB leaves room for every virtual function a NIC
 * may list. */
#define DUMP_MAX (LINKS_MAX * (size_t) 8192)
/* Kernel 5.14 tells the bus; Debian 11's headers do not know the number yet. */
#define ATTR_PARENT_BUS 57
#define ATTR_MAX ATTR_PARENT_BUS
_Static_assert(IFLA_MAX < 256 && IFLA_MAX_MTU < ATTR_MAX, "the attributes that are read have room");

/* --- Parsing ------------------------------------------------------------------------------------------ */

static const struct nla_policy link_policy[ATTR_MAX + 1] = {
        [IFLA_IFNAME] = { .type = NLA_STRING, .minlen = 1, .maxlen = IF_NAMESIZE },
        [IFLA_MTU] = { .type = NLA_U32 },
        [IFLA_MIN_MTU] = { .type = NLA_U32 },
        [IFLA_MAX_MTU] = { .type = NLA_U32 },
        [IFLA_TXQLEN] = { .type = NLA_U32 },
        [IFLA_MASTER] = { .type = NLA_U32 },
        [IFLA_LINK] = { .type = NLA_U32 },
        [IFLA_LINK_NETNSID] = { .type = NLA_U32 },
        [IFLA_CARRIER] = { .type = NLA_U8 },
        [IFLA_CARRIER_CHANGES] = { .type = NLA_U32 },
        [IFLA_LINKINFO] = { .type = NLA_NESTED },
        [IFLA_XDP] = { .type = NLA_NESTED },
        [IFLA_PROP_LIST] = { .type = NLA_NESTED },
        [ATTR_PARENT_BUS] = { .type = NLA_STRING },
};

static const struct nla_policy xdp_policy[IFLA_XDP_MAX + 1] = {
        [IFLA_XDP_PROG_ID] = { .type = NLA_U32 },
        [IFLA_XDP_DRV_PROG_ID] = { .type = NLA_U32 },
        [IFLA_XDP_SKB_PROG_ID] = { .type = NLA_U32 },
        [IFLA_XDP_HW_PROG_ID] = { .type = NLA_U32 },
};

static const struct nla_policy info_policy[IFLA_INFO_MAX + 1] = {
        [IFLA_INFO_KIND] = { .type = NLA_STRING, .minlen = 1 },
};

static uint32_t u32_or_0(const struct nlattr *a) {
        return a ? nla_get_u32(a) : 0;
}

/* Of several, in the driver and before it, the first. */
static int parse_xdp(struct nlattr *xdp, struct link *l) {
        static const int ids[] = { IFLA_XDP_PROG_ID, IFLA_XDP_DRV_PROG_ID, IFLA_XDP_SKB_PROG_ID,
                                   IFLA_XDP_HW_PROG_ID };
        struct nlattr *a[IFLA_XDP_MAX + 1];

        if (nla_parse_nested(a, IFLA_XDP_MAX, xdp, xdp_policy) < 0)
                return -EBADMSG;
        for (size_t i = 0; i < ELEMENTSOF(ids) && l->xdp == 0; i++)
                l->xdp = u32_or_0(a[ids[i]]);
        return 0;
}

static void parse_altnames(struct nlattr *list, struct link *l) {
        struct nlattr *a;
        int left;

        nla_for_each_nested(a, list, left) {
                const char *name = nla_data(a);
                size_t n = nla_len(a) > 0 ? strnlen(name, (size_t) nla_len(a)) : 0;
                size_t has = strlen(l->altnames);

                if (nla_type(a) == IFLA_ALT_IFNAME && n > 0 && has + n + 2 <= sizeof(l->altnames))
                        (void) snprintf(l->altnames + has, sizeof(l->altnames) - has, "%s%.*s",
                                        has > 0 ? " " : "", (int) n, name);
        }
}

static int parse_kind(struct nlattr *linkinfo, struct link *l) {
        struct nlattr *info[IFLA_INFO_MAX + 1];

        if (nla_parse_nested(info, IFLA_INFO_MAX, linkinfo, info_policy) < 0)
                return -EBADMSG;
        if (info[IFLA_INFO_KIND])
                (void) nla_strlcpy(l->kind, info[IFLA_INFO_KIND],
                                   sizeof(l->kind)); /* a kind too long is none we know: cut */
        return 0;
}

static int parse_link(struct nlmsghdr *h, void *ret_item) {
        struct nlattr *a[ATTR_MAX + 1];
        const struct ifinfomsg *info;
        struct link l = { 0 };

        if (!nlmsg_valid_hdr(h, sizeof(*info)) ||
            nlmsg_parse(h, sizeof(*info), a, ATTR_MAX, link_policy) < 0)
                return -EBADMSG;
        info = nlmsg_data(h);
        if (info->ifi_index <= 0 || !a[IFLA_IFNAME])
                return -EBADMSG;
        l.index = info->ifi_index;
        l.arp_type = info->ifi_type;
        l.up = info->ifi_flags & IFF_UP;
        l.no_arp = info->ifi_flags & IFF_NOARP;
        (void) nla_strlcpy(l.name, a[IFLA_IFNAME], sizeof(l.name)); /* the policy holds its length */
        if (a[IFLA_ADDRESS] && nla_len(a[IFLA_ADDRESS]) <= (int) sizeof(l.address)) {
                l.address_len = (uint8_t) nla_len(a[IFLA_ADDRESS]);
                memcpy(l.address, nla_data(a[IFLA_ADDRESS]), l.address_len);
        }
        l.mtu = u32_or_0(a[IFLA_MTU]);
        l.min_mtu = u32_or_0(a[IFLA_MIN_MTU]);
        l.max_mtu = u32_or_0(a[IFLA_MAX_MTU]);
        l.queue = u32_or_0(a[IFLA_TXQLEN]);
        l.master = (int) u32_or_0(a[IFLA_MASTER]);
        l.carrier_changes = u32_or_0(a[IFLA_CARRIER_CHANGES]);
        l.carrier = a[IFLA_CARRIER] && nla_get_u8(a[IFLA_CARRIER]) != 0;
        l.lower = (int) u32_or_0(a[IFLA_LINK]);
        l.peer_elsewhere = a[IFLA_LINK_NETNSID] != NULL;
        l.lower_nsid = l.peer_elsewhere ? (int) nla_get_u32(a[IFLA_LINK_NETNSID]) : -1;
        if (a[ATTR_PARENT_BUS])
                (void) nla_strlcpy(l.bus, a[ATTR_PARENT_BUS],
                                   sizeof(l.bus)); /* too long is none we know: cut */
        if (a[IFLA_PROP_LIST])
                parse_altnames(a[IFLA_PROP_LIST], &l);
        if ((a[IFLA_LINKINFO] && parse_kind(a[IFLA_LINKINFO], &l) < 0) ||
            (a[IFLA_XDP] && parse_xdp(a[IFLA_XDP], &l) < 0))
                return -EBADMSG;
        *(struct link *) ret_item = l;
        return 1;
}

static int compare_links(const void *a, const void *b) {
        const struct link *x = a, *y = b;

        return (x->index > y->index) - (x->index < y->index);
}

bool link_is_ethernet(const struct link *l) {
        return l->arp_type == ARPHRD_ETHER && l->address_len == 6;
}

static bool is_hardware(const struct link *l) {
        return link_is_ethernet(l) && !l->kind[0] &&
               (!l->bus[0] || streq(l->bus, "pci") || streq(l->bus, "virtio"));
}

/* Which NICs are beside hardware depends on the bus of each. */
static void judge_hardware(struct link_table *t) {
        bool hardware = false;

        for (size_t i = 0; i < t->n; i++)
                hardware |= is_hardware(&t->links[i]);
        for (size_t i = 0; i < t->n; i++)
                t->links[i].beside_hardware = hardware;
}

static const struct dump_table table = {
        .request = { .type = RTM_GETLINK,
                     .head = &(const struct ifinfomsg){ .ifi_family = AF_UNSPEC },
                     .head_size = sizeof(struct ifinfomsg),
                     .skip_statistics = true,
                     .max = DUMP_MAX },
        .recorded = "/netlink/links",
        .answer = RTM_NEWLINK,
        .item_size = sizeof(struct link),
        .items_max = LINKS_MAX,
        .parse = parse_link,
};

static void sort_and_judge(struct link_table *t) {
        if (t->n > 0)
                qsort(t->links, t->n, sizeof(*t->links), compare_links);
        judge_hardware(t);
}

int links_parse(const void *data, size_t len, struct link_table *ret) {
        int r = dump_table_parse(data, len, &table, &ret->links, &ret->n);

        if (r == 0)
                sort_and_judge(ret);
        return r;
}

/* --- Reading ------------------------------------------------------------------------------------------ */

/* ethtool's answer, which holds for this network namespace as /sys need not. A socket of any family will do.
 */
static int ask_driver(int fd, struct link *l) {
        struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
        struct ifreq request = { .ifr_data = (void *) &info };

        (void) snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", l->name);
        if (ioctl(fd, SIOCETHTOOL, &request) < 0)
                return -errno;
        info.driver[sizeof(info.driver) - 1] = '\0';
        (void) snprintf(l->driver, sizeof(l->driver), "%s", info.driver);
        return 0;
}

static void read_sysfs(const struct host *h, const char *what, const struct link *l, char *dest,
                       size_t size) {
        char path[64], name[64];

        if (h->other_netns)
                return; /* a NIC of that name in sysfs is not this one */
        (void) snprintf(path, sizeof(path), "/sys/class/net/%s/device/%s", l->name, what);
        if (host_link_name(h, path, name, sizeof(name)) == 0 && strlen(name) < size)
                (void) snprintf(dest, size, "%s", name);
}

static int count_tx_queue(const char *name, void *userdata) {
        *(unsigned *) userdata += startswith(name, "tx-");
        return 0;
}

static void read_queues(const struct host *h, struct link *l) {
        unsigned n = 0;
        char path[64];

        (void) snprintf(path, sizeof(path), "/sys/class/net/%s/queues", l->name);
        if (!h->other_netns && host_list(h, path, count_tx_queue, &n) == 0)
                l->tx_queues = n;
}

/* What cannot be found stays empty: the NIC is then nothing special. */
static void add_devices(const struct host *h, struct link_table *t) {
        _cleanup_close_ int fd = -1;

        for (size_t i = 0; i < t->n; i++) {
                struct link *l = &t->links[i];

                if (!link_is_ethernet(l) || l->kind[0])
                        continue;
                if (fd < 0 && h->real_root)
                        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
                if (fd < 0 || ask_driver(fd, l) < 0)
                        read_sysfs(h, "driver", l, l->driver, sizeof(l->driver));
                if (!l->bus[0])
                        read_sysfs(h, "subsystem", l, l->bus, sizeof(l->bus));
                read_queues(h, l);
        }
        judge_hardware(t);
}

int links_read(const struct host *h, struct link_table *ret) {
        int r = dump_table_read(h, &table, &ret->links, &ret->n);

        if (r < 0)
                return r;
        sort_and_judge(ret);
        add_devices(h, ret);
        return 0;
}

void link_table_clear(struct link_table *t) {
        free(t->links);
        *t = LINK_TABLE_NULL;
}

bool link_is_made(const struct link *l) {
        return l->peer_elsewhere &&
               (streq(l->kind, "veth") || streq(l->kind, "macvlan") || streq(l->kind, "ipvlan"));
}

const struct link *link_by_index(const struct link_table *t, int index) {
        const struct link wanted = { .index = index };

        return t->n == 0 ? NULL : bsearch(&wanted, t->links, t->n, sizeof(*t->links), compare_links);
}

const struct link *link_by_name(const struct link_table *t, const char *name) {
        for (size_t i = 0; i < t->n; i++)
                if (streq(t->links[i].name, name))
                        return &t->links[i];
        return NULL;
}

bool link_is_data_nic(const struct link *l) {
        if (l->master != 0 || !link_is_ethernet(l))
                return false;
        return is_hardware(l) || (link_is_made(l) && !l->beside_hardware);
}

uint32_t link_stated_mtu(const struct link *l) {
        if (streq(l->driver, "gve"))
                return l->max_mtu;
        if (streq(l->driver, "virtio_net") && l->max_mtu < 65535)
                return l->max_mtu;
        return 0;
}
