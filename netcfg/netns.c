/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/net_namespace.h>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "log.h"
#include "netlink.h"
#include "netns.h"

#define OWN_NETNS "/proc/self/ns/net"
#ifndef SO_NETNS_COOKIE /* kernel 5.14; Debian 11's headers do not know the number yet */
#define SO_NETNS_COOKIE 71
#endif

void netns_clear(struct netns *n) {
        link_table_clear(&n->links);
        *n = NETNS_NULL;
}

/* --- Opening ------------------------------------------------------------------------------------------ */

static int log_not_opened(int error, const char *path) {
        if (error == -EACCES || error == -EPERM)
                return log_error_errno(error, "--netns %s: %m: this needs root", path);
        if (error == -ENOENT)
                return log_error_errno(error,
                                       "--netns %s: there is no such file; was the container stopped, or "
                                       "the process ended? (ip netns; lsns -t net)",
                                       path);
        if (error == -EINVAL)
                return log_error_errno(error, "--netns %s: the path has to begin with /", path);
        return log_error_errno(error, "--netns %s: cannot be opened: %m", path);
}

static int check_kind(int fd, const char *path) {
        int kind = ioctl(fd, NS_GET_NSTYPE);

        if (kind == CLONE_NEWNET)
                return 0;
        if (kind >= 0)
                return log_error_errno(-EINVAL,
                                       "--netns %s: this is a namespace, but not a network namespace "
                                       "(/proc/PID/ns/net is one)",
                                       path);
        return log_error_errno(-EINVAL,
                               "--netns %s: this is not a namespace, or no longer one: a file in /run/netns "
                               "stays behind when its namespace is gone (/proc/PID/ns/net is one)",
                               path);
}

static int check_other(int fd, int own_fd, const char *path) {
        struct stat st, own;

        if (fstat(fd, &st) < 0 || fstat(own_fd, &own) < 0)
                return log_error_errno(-errno, "--netns %s: %m", path);
        if (st.st_dev == own.st_dev && st.st_ino == own.st_ino)
                return log_error_errno(-EINVAL,
                                       "--netns %s: this is the network namespace we are in already: leave "
                                       "--netns out",
                                       path);
        return 0;
}

static int open_both(const struct host *h, const char *path, int *ret_fd, int *ret_own_fd) {
        _cleanup_close_ int fd = host_open_file(h, path, O_RDONLY);
        _cleanup_close_ int own_fd = -1;
        int r;

        if (fd < 0)
                return log_not_opened(fd, path);
        r = check_kind(fd, path);
        if (r < 0)
                return r;
        own_fd = host_open_file(h, OWN_NETNS, O_RDONLY);
        if (own_fd < 0)
                return log_error_errno(own_fd, OWN_NETNS ": %m");
        r = check_other(fd, own_fd, path);
        if (r < 0)
                return r;
        *ret_fd = TAKE_FD(fd);
        *ret_own_fd = TAKE_FD(own_fd);
        return 0;
}

/* --- What is learned of it ---------------------------------------------------------------------------- */

static int name_runtime(struct netns *n, int fd) {
        _cleanup_close_ int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        socklen_t len = sizeof(uint64_t);
        uint64_t cookie;
        struct stat st;

        if (sock >= 0 && getsockopt(sock, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) == 0) {
                (void) snprintf(n->runtime, sizeof(n->runtime), PATH_NETCFG_RUNTIME "/netns-%" PRIu64,
                                cookie);
                return 0;
        }
        if (fstat(fd, &st) < 0)
                return -errno;
        (void) snprintf(n->runtime, sizeof(n->runtime), PATH_NETCFG_RUNTIME "/netns-%u-%lu",
                        minor(st.st_dev), (unsigned long) st.st_ino);
        return 0;
}

static int take_nsid(struct nlmsghdr *h, void *userdata) {
        struct nlattr *a = h->nlmsg_type == RTM_NEWNSID && nlmsg_valid_hdr(h, sizeof(struct rtgenmsg)) ?
                                   nlmsg_find_attr(h, sizeof(struct rtgenmsg), NETNSA_NSID) : NULL;

        if (!a || nla_len(a) != sizeof(uint32_t))
                return -EBADMSG;
        *(int *) userdata = (int) nla_get_u32(a);
        return 1;
}

/* What this namespace calls the one behind fd. -1: it has no name for it, or the kernel does not say. */
static int ask_nsid(int fd) {
        const struct rtgenmsg head = { .rtgen_family = AF_UNSPEC };
        _cleanup_(nlmsg_freep) struct nl_msg *m = netlink_message(RTM_GETNSID, 0, &head, sizeof(head));
        _cleanup_(nl_socket_freep) struct nl_sock *s = NULL;
        int nsid = -1;

        if (!m || nla_put_u32(m, NETNSA_FD, (uint32_t) fd) < 0 || netlink_open(NETLINK_ROUTE, &s) < 0 ||
            netlink_ask(s, m, take_nsid, &nsid) < 0)
                return -1;
        return nsid;
}

static int read_hosts_links(struct netns *n, const struct host *h, const struct intent *i) {
        int r = links_read(h, &n->links);

        if (r < 0)
                return log_error_errno(r, "the host's own network interfaces cannot be read: %m");
        for (size_t k = 0; k < n->links.n; k++) {
                const struct link *l = &n->links.links[k];

                if (!intent_is_data_nic(i, l) || (n->carried > 0 && l->mtu >= n->carried))
                        continue;
                n->carried = l->mtu;
                memcpy(n->carried_by, l->name, sizeof(n->carried_by));
        }
        return 0;
}

int netns_enter(struct host *h, struct intent *i, const char *path, struct netns *ret) {
        _cleanup_(netns_clear) struct netns n = NETNS_NULL;
        _cleanup_close_ int fd = -1, own_fd = -1;
        int r;

        n.path = path;
        r = open_both(h, path, &fd, &own_fd);
        if (r == 0)
                r = read_hosts_links(&n, h, i);
        if (r < 0)
                return r;
        if (setns(fd, CLONE_NEWNET) < 0)
                return log_error_errno(-errno, "--netns %s: cannot be entered: %m: this needs root", path);
        h->other_netns = true;
        i->nics[0] = i->ignore_nics[0] = '\0';
        n.host_nsid = ask_nsid(own_fd);
        r = name_runtime(&n, fd);
        if (r < 0)
                return log_error_errno(r, "--netns %s: %m", path);
        *ret = n;
        n.links = LINK_TABLE_NULL;
        return 0;
}

/* --- What carries its packets ------------------------------------------------------------------------- */

static void lower_bound(struct link *l, uint32_t mtu, const char *by) {
        if (mtu == 0 || (l->carried_by[0] && mtu >= l->carried_mtu))
                return;
        l->carried_mtu = mtu;
        (void) snprintf(l->carried_by, sizeof(l->carried_by), "%s", by);
}

static void bound_link(const struct netns *n, struct link *l) {
        bool by_host = l->lower_nsid >= 0 && l->lower_nsid == n->host_nsid;
        const struct link *lower = by_host ? link_by_index(&n->links, l->lower) : NULL;
        const struct link *master = lower ? link_by_index(&n->links, lower->master) : NULL;

        l->carried_mtu = l->mtu;
        if (!lower || n->carried == 0)
                return;
        lower_bound(l, lower->mtu, lower->name);
        if (master)
                lower_bound(l, master->mtu, master->name);
        lower_bound(l, n->carried, n->carried_by);
}

void netns_bound_links(const struct netns *n, struct link_table *t) {
        for (size_t k = 0; n->path && k < t->n; k++)
                if (link_is_made(&t->links[k]))
                        bound_link(n, &t->links[k]);
}
