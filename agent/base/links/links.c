/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "io.h"
#include "links.h"

#define LINKS_DUMP "/netlink/links"
/* One RTM_NEWLINK is about 1.5 KiB without statistics; 8 KiB leaves room for every virtual function a NIC
 * may list. */
#define DUMP_MAX (LINKS_MAX * (size_t) 8192)
#define DUMP_TRIES 5
/* Kernel 5.14 tells the bus; Debian 11's headers do not know the number yet. */
#define ATTR_PARENT_BUS 57
#define ATTR_MAX 64
_Static_assert(IFLA_MAX < 256 && IFLA_MAX_MTU < ATTR_MAX, "the attributes that are read have room");

/* --- Parsing ------------------------------------------------------------------------------------------ */

static const struct nla_policy link_policy[ATTR_MAX + 1] = {
        [IFLA_IFNAME] = { .type = NLA_STRING, .minlen = 1, .maxlen = IF_NAMESIZE },
        [IFLA_MTU] = { .type = NLA_U32 },
        [IFLA_MIN_MTU] = { .type = NLA_U32 },
        [IFLA_MAX_MTU] = { .type = NLA_U32 },
        [IFLA_MASTER] = { .type = NLA_U32 },
        [IFLA_CARRIER] = { .type = NLA_U8 },
        [IFLA_LINKINFO] = { .type = NLA_NESTED },
        [ATTR_PARENT_BUS] = { .type = NLA_STRING },
};

static const struct nla_policy info_policy[IFLA_INFO_MAX + 1] = {
        [IFLA_INFO_KIND] = { .type = NLA_STRING, .minlen = 1 },
};

static uint32_t u32_or_0(const struct nlattr *a) {
        return a ? nla_get_u32(a) : 0;
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

static int parse_link(struct nlmsghdr *h, struct link *ret) {
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
        (void) nla_strlcpy(l.name, a[IFLA_IFNAME], sizeof(l.name)); /* the policy holds its length */
        if (a[IFLA_ADDRESS] && nla_len(a[IFLA_ADDRESS]) <= (int) sizeof(l.address)) {
                l.address_len = (uint8_t) nla_len(a[IFLA_ADDRESS]);
                memcpy(l.address, nla_data(a[IFLA_ADDRESS]), l.address_len);
        }
        l.mtu = u32_or_0(a[IFLA_MTU]);
        l.min_mtu = u32_or_0(a[IFLA_MIN_MTU]);
        l.max_mtu = u32_or_0(a[IFLA_MAX_MTU]);
        l.master = (int) u32_or_0(a[IFLA_MASTER]);
        l.carrier = a[IFLA_CARRIER] && nla_get_u8(a[IFLA_CARRIER]) != 0;
        l.peer_elsewhere = a[IFLA_LINK_NETNSID] != NULL;
        if (a[ATTR_PARENT_BUS])
                (void) nla_strlcpy(l.bus, a[ATTR_PARENT_BUS], sizeof(l.bus)); /* too long is none we know: cut */
        if (a[IFLA_LINKINFO] && parse_kind(a[IFLA_LINKINFO], &l) < 0)
                return -EBADMSG;
        *ret = l;
        return 0;
}

static int add_link(struct link_table *t, const struct link *l) {
        struct link *grown;

        if (t->n == LINKS_MAX)
                return -E2BIG;
        grown = reallocarray(t->links, t->n + 1, sizeof(*t->links));
        if (!grown)
                return -ENOMEM;
        t->links = grown;
        t->links[t->n++] = *l;
        return 0;
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

/* Returns 1 at the end of the dump, 0 to go on. */
static int parse_message(struct nlmsghdr *h, struct link_table *t) {
        struct link l;
        int r;

        if (h->nlmsg_flags & NLM_F_DUMP_INTR)
                return -EINTR;
        if (h->nlmsg_type == NLMSG_DONE)
                return 1;
        if (h->nlmsg_type == NLMSG_ERROR) {
                if (!nlmsg_valid_hdr(h, sizeof(struct nlmsgerr)))
                        return -EBADMSG;
                r = ((const struct nlmsgerr *) nlmsg_data(h))->error;
                return r < 0 && r > -4096 ? r : -EBADMSG;
        }
        if (h->nlmsg_type != RTM_NEWLINK)
                return -EBADMSG;
        r = parse_link(h, &l);
        return r < 0 ? r : add_link(t, &l);
}

static bool message_fits(const struct nlmsghdr *h, size_t left) {
        return left >= sizeof(*h) && h->nlmsg_len >= sizeof(*h) && h->nlmsg_len <= left;
}

int links_parse(const void *data, size_t len, struct link_table *ret) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;
        _cleanup_free_ char *copy = NULL; /* aligned, and libnl's attribute functions want it writable */
        size_t at = 0;

        if (len == 0 || len > DUMP_MAX)
                return -EBADMSG;
        copy = malloc(len);
        if (!copy)
                return -ENOMEM;
        memcpy(copy, data, len);
        while (at < len && message_fits((struct nlmsghdr *) (void *) (copy + at), len - at)) {
                struct nlmsghdr *h = (struct nlmsghdr *) (void *) (copy + at);
                int r = parse_message(h, &t);

                if (r < 0)
                        return r;
                at += MIN((size_t) NLMSG_ALIGN(h->nlmsg_len), len - at);
                if (r == 0)
                        continue;
                if (at < len)
                        return -EBADMSG;
                if (t.n > 0)
                        qsort(t.links, t.n, sizeof(*t.links), compare_links);
                judge_hardware(&t);
                *ret = t;
                t = LINK_TABLE_NULL;
                return 0;
        }
        return -EBADMSG;
}

/* --- Reading ------------------------------------------------------------------------------------------ */

static int read_recorded(const struct host *h, struct link_table *ret) {
        _cleanup_close_ int fd = host_open_file(h, LINKS_DUMP, O_RDONLY);
        _cleanup_free_ char *buf = NULL;
        ssize_t n;

        if (fd < 0)
                return fd == -ENOENT ? -ENODATA : fd;
        buf = malloc(DUMP_MAX + 1);
        if (!buf)
                return -ENOMEM;
        n = io_read_up_to(fd, buf, DUMP_MAX + 1);
        if (n < 0)
                return (int) n;
        return (size_t) n > DUMP_MAX ? -E2BIG : links_parse(buf, (size_t) n, ret);
}

DEFINE_CLEANUP(struct nl_sock *, nl_socket_free)
DEFINE_CLEANUP(struct nl_msg *, nlmsg_free)

/* libnl has error numbers of its own; -errno here is what the system call left. */
static int ask_for_links(struct nl_sock *s) {
        _cleanup_(nlmsg_freep) struct nl_msg *m =
                nlmsg_alloc_simple(RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP);
        const struct ifinfomsg info = { .ifi_family = AF_UNSPEC };

        if (!m || nlmsg_append(m, (void *) (uintptr_t) &info, sizeof(info), NLMSG_ALIGNTO) < 0 ||
            nla_put_u32(m, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS) < 0)
                return -ENOMEM;
        return nl_send_auto(s, m) < 0 ? (errno ? -errno : -EIO) : 0;
}

/* Whether the datagram ends the dump: its last message is NLMSG_DONE or an error. */
static bool ends_dump(const unsigned char *data, size_t len) {
        while (message_fits((const struct nlmsghdr *) (const void *) data, len)) {
                const struct nlmsghdr *h = (const struct nlmsghdr *) (const void *) data;
                size_t step = MIN((size_t) NLMSG_ALIGN(h->nlmsg_len), len);

                if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
                        return true;
                data += step;
                len -= step;
        }
        return len > 0; /* malformed: the parser will say so */
}

static int receive_dump(struct nl_sock *s, char **ret, size_t *ret_len) {
        _cleanup_free_ char *dump = NULL;
        size_t n = 0;

        for (;;) {
                _cleanup_free_ unsigned char *datagram = NULL;
                struct sockaddr_nl from = { 0 };
                char *grown;
                int k;

                k = nl_recv(s, &from, &datagram, NULL);
                if (k <= 0)
                        return k == 0 ? -EIO : -EAGAIN;
                if (from.nl_pid != 0)
                        continue; /* not from the kernel */
                if (n + (size_t) k > DUMP_MAX)
                        return -E2BIG;
                grown = realloc(dump, n + (size_t) k);
                if (!grown)
                        return -ENOMEM;
                dump = grown;
                memcpy(dump + n, datagram, (size_t) k);
                n += (size_t) k;
                if (ends_dump(datagram, (size_t) k))
                        break;
        }
        *ret = TAKE_PTR(dump);
        *ret_len = n;
        return 0;
}

static int dump_once(struct link_table *ret) {
        _cleanup_(nl_socket_freep) struct nl_sock *s = nl_socket_alloc();
        _cleanup_free_ char *dump = NULL;
        size_t len = 0;
        int r;

        if (!s)
                return -ENOMEM;
        errno = 0;
        if (nl_connect(s, NETLINK_ROUTE) < 0)
                return errno ? -errno : -EIO;
        nl_socket_enable_msg_peek(s);
        r = ask_for_links(s);
        if (r == 0)
                r = receive_dump(s, &dump, &len);
        return r < 0 ? r : links_parse(dump, len, ret);
}

/* ethtool's answer, which holds for this network namespace as /sys need not. A socket of any family will do. */
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

static void read_sysfs(const struct host *h, const char *what, const struct link *l, char *dest, size_t size) {
        char path[64], name[64];

        (void) snprintf(path, sizeof(path), "/sys/class/net/%s/device/%s", l->name, what);
        if (host_link_name(h, path, name, sizeof(name)) == 0 && strlen(name) < size)
                (void) snprintf(dest, size, "%s", name);
}

/* What cannot be told stays empty: the NIC is then nothing special. */
static void add_devices(const struct host *h, struct link_table *t) {
        _cleanup_close_ int fd = h->real_root ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;

        for (size_t i = 0; i < t->n; i++) {
                struct link *l = &t->links[i];

                if (!link_is_ethernet(l) || l->kind[0])
                        continue;
                if (fd < 0 || ask_driver(fd, l) < 0)
                        read_sysfs(h, "driver", l, l->driver, sizeof(l->driver));
                if (!l->bus[0])
                        read_sysfs(h, "subsystem", l, l->bus, sizeof(l->bus));
        }
        judge_hardware(t);
}

int links_read(const struct host *h, struct link_table *ret) {
        struct link_table t = LINK_TABLE_NULL;
        int r = h->real_root ? -EINTR : read_recorded(h, &t);

        for (int i = 0; h->real_root && i < DUMP_TRIES && (r == -EINTR || r == -EAGAIN); i++)
                r = dump_once(&t);
        if (r < 0)
                return r;
        add_devices(h, &t);
        *ret = t;
        return 0;
}

void link_table_clear(struct link_table *t) {
        free(t->links);
        *t = LINK_TABLE_NULL;
}

bool link_is_data_nic(const struct link *l) {
        if (l->master != 0 || !link_is_ethernet(l))
                return false;
        return is_hardware(l) || (streq(l->kind, "veth") && l->peer_elsewhere && !l->beside_hardware);
}

uint32_t link_stated_mtu(const struct link *l) {
        if (streq(l->driver, "gve"))
                return l->max_mtu;
        if (streq(l->driver, "virtio_net") && l->max_mtu < 65535)
                return l->max_mtu;
        return 0;
}
