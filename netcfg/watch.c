/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <sys/inotify.h>
#include <sys/socket.h>

#include "ethtool.h"
#include "netlink.h"
#include "texts.h"
#include "watch.h"

#define DRAIN_MAX 1024 /* messages one turn of the loop takes; the rest waits for the next */

/* One socket on which the kernel reports changes. */
struct ear {
        struct nl_sock *sock; /* NULL: none */
        sd_event_source *io;
        bool bits_only; /* of ethtool's notifications only those about features and private flags */
};

struct net_watch {
        struct ear routing, ethtool;
        int sysctls; /* inotify */
        sd_event_source *sysctl_io;
        void (*changed)(void *userdata);
        void *userdata;
        unsigned overruns;
        sd_event *event;
        const struct host *host;
        const struct intent *intent;
        char deaf[160]; /* what is not reported, and why */
};

/*
 * Takes what is queued, unread but for its head. With recv(2), not libnl, whose receive functions say "out
 * of memory" for an overrun. Returns the number of messages that tell a change.
 */
static unsigned drain_ear(struct net_watch *w, const struct ear *e) {
        unsigned n = 0, taken = 0;
        char head[ETHTOOL_HEAD_SIZE];

        while (e->sock && taken++ < DRAIN_MAX) {
                ssize_t k = recv(nl_socket_get_fd(e->sock), head, sizeof(head), MSG_DONTWAIT | MSG_TRUNC);

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0 && errno != ENOBUFS)
                        break;
                w->overruns += k < 0;
                n += k < 0 || !e->bits_only || ethtool_tells_bits(head, (size_t) k);
        }
        return n;
}

/* Both at once: a changed feature is reported on both. */
static int on_readable(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct net_watch *w = userdata;

        (void) s, (void) fd, (void) revents;
        if (drain_ear(w, &w->routing) + drain_ear(w, &w->ethtool) > 0)
                w->changed(w->userdata);
        return 0;
}

static int listen_on(struct net_watch *w, sd_event *event, struct ear *e, const char *description) {
        int r;

        if (nl_socket_set_nonblocking(e->sock) < 0)
                return -EIO;
        r = sd_event_add_io(event, &e->io, nl_socket_get_fd(e->sock), EPOLLIN, on_readable, w);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(e->io, description);
        return 0;
}

static int join_routing(struct nl_sock *s, const struct intent *i) {
        int r = nl_socket_add_memberships(s, RTNLGRP_LINK, RTNLGRP_TC, 0);

        if (r == 0 && (i->rto_min > 0 || i->source_routing))
                r = nl_socket_add_memberships(s, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE, 0);
        if (r == 0 && i->loose_rp_filter) /* rp_filter: inotify would watch a file of each NIC */
                r = nl_socket_add_memberships(s, RTNLGRP_IPV4_NETCONF, 0);
        if (r == 0 && i->source_routing)
                r = nl_socket_add_memberships(s, RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE, RTNLGRP_IPV4_IFADDR,
                                              RTNLGRP_IPV6_IFADDR, 0);
        return r < 0 ? -EIO : 0;
}

static int listen_to_routing(struct net_watch *w, sd_event *event, const struct intent *i) {
        struct ear *e = &w->routing;
        int r = netlink_open(NETLINK_ROUTE, &e->sock);

        if (r == 0)
                r = join_routing(e->sock, i);
        return r < 0 ? r : listen_on(w, event, e, "link and route changes");
}

/* The socket that asked for the group's number then listens to it. */
static int listen_to_ethtool(struct net_watch *w, sd_event *event, const struct host *h) {
        _cleanup_ethtool_ struct ethtool session = ETHTOOL_NULL;
        struct ear *e = &w->ethtool;
        int r = ethtool_open(h, &session);

        if (r == -EPROTONOSUPPORT || (r == 0 && (!session.sock || session.monitor == 0)))
                return 0;
        if (r < 0)
                return r;
        e->sock = TAKE_PTR(session.sock);
        e->bits_only = true;
        if (nl_socket_add_membership(e->sock, (int) session.monitor) < 0)
                return -EIO;
        return listen_on(w, event, e, "ethtool changes");
}

/* --- Sysctls, by inotify ------------------------------------------------------------------------------ */

/* Which one it was is not asked: everything is read again, so a lost event (overflow) is like others. */
static int on_sysctl(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        _Alignas(struct inotify_event) char buf[4096];
        struct net_watch *w = userdata;
        bool any = false;

        (void) s, (void) revents;
        while (read(fd, buf, sizeof(buf)) > 0)
                any = true;
        if (any)
                w->changed(w->userdata);
        return 0;
}

static int add_sysctl(int inotify_fd, const struct host *h, const char *name) {
        _cleanup_close_ int fd = -1;
        char path[128], magic[40];
        int r;

        r = intent_sysctl_path(name, path, sizeof(path));
        if (r < 0)
                return r;
        fd = host_open_file(h, path, O_PATH);
        if (fd < 0)
                return fd;
        (void) snprintf(magic, sizeof(magic), "/proc/self/fd/%d", fd);
        return inotify_add_watch(inotify_fd, magic, IN_MODIFY) < 0 ? -errno : 0;
}

static int watch_sysctls(struct net_watch *w, sd_event *event, const struct host *h,
                         const struct intent *i) {
        int r;

        w->sysctls = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (w->sysctls < 0)
                return -errno;
        for (size_t k = 0; k < i->n_sysctls; k++) {
                r = add_sysctl(w->sysctls, h, i->sysctls[k].name);
                if (r < 0 && r != -ENOENT && r != -EACCES) /* this kernel has not got it: passed over */
                        return r;
        }
        r = sd_event_add_io(event, &w->sysctl_io, w->sysctls, EPOLLIN, on_sysctl, w);
        if (r == 0)
                (void) sd_event_source_set_description(w->sysctl_io, "sysctl writes");
        return r;
}

/* --- All of it ---------------------------------------------------------------------------------------- */

static void ear_clear(struct ear *e) {
        e->io = sd_event_source_disable_unref(e->io);
        if (e->sock)
                nl_socket_free(e->sock);
        *e = (struct ear) { 0 };
}

static void sysctls_clear(struct net_watch *w) {
        w->sysctl_io = sd_event_source_disable_unref(w->sysctl_io);
        w->sysctls = close_fd(w->sysctls);
}

static void note_deaf(struct net_watch *w, const char *what, int error) {
        text_append(w->deaf, sizeof(w->deaf), "; ", "%s: %s", what, strerror(-error));
}

void net_watch_mend(struct net_watch *w) {
        int r;

        w->deaf[0] = '\0';
        r = w->routing.io ? 0 : listen_to_routing(w, w->event, w->intent);
        if (r < 0) {
                ear_clear(&w->routing);
                note_deaf(w, "changes of links and routes are not reported", r);
        }
        r = w->ethtool.io || w->intent->n_nic_settings == 0 ? 0 : listen_to_ethtool(w, w->event, w->host);
        if (r < 0) {
                ear_clear(&w->ethtool);
                note_deaf(w, "changes of NIC features are not reported", r);
        }
        r = w->sysctl_io ? 0 : watch_sysctls(w, w->event, w->host, w->intent);
        if (r < 0) {
                sysctls_clear(w);
                note_deaf(w, "writes of sysctls are not reported", r);
        }
}

const char *net_watch_deaf(const struct net_watch *w) {
        return w->deaf;
}

int net_watch_new(sd_event *event, const struct host *h, const struct intent *i,
                  void (*changed)(void *userdata), void *userdata, struct net_watch **ret) {
        struct net_watch *w = calloc(1, sizeof(*w));

        if (!w)
                return -ENOMEM;
        *w = (struct net_watch) { .sysctls = -1,
                                  .changed = changed,
                                  .userdata = userdata,
                                  .event = event,
                                  .host = h,
                                  .intent = i };
        net_watch_mend(w);
        *ret = w;
        return 0;
}

struct net_watch *net_watch_free(struct net_watch *w) {
        if (!w)
                return NULL;
        ear_clear(&w->routing);
        ear_clear(&w->ethtool);
        sysctls_clear(w);
        free(w);
        return NULL;
}

unsigned net_watch_overruns(const struct net_watch *w) {
        return w->overruns;
}
