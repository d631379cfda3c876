/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/rtnetlink.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <sys/socket.h>

#include "watch.h"

#define DRAIN_MAX 1024 /* messages one turn of the loop takes; the rest waits for the next */

struct watch {
        struct nl_sock *sock;
        sd_event_source *io;
        void (*changed)(void *userdata);
        void *userdata;
        unsigned overruns;
};

/*
 * Takes what is queued, unread. With recv(2), not libnl, whose receive functions say "out of memory" for an
 * overrun. Returns the number of messages.
 */
static unsigned drain(struct watch *w) {
        unsigned n = 0;
        char byte;

        while (n < DRAIN_MAX) {
                ssize_t k = recv(nl_socket_get_fd(w->sock), &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC);

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0 && errno != ENOBUFS)
                        break;
                w->overruns += k < 0;
                n++;
        }
        return n;
}

static int on_readable(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct watch *w = userdata;

        (void) s, (void) fd, (void) revents;
        if (drain(w) > 0)
                w->changed(w->userdata);
        return 0;
}

int watch_new(sd_event *e, bool routes, void (*changed)(void *userdata), void *userdata,
              struct watch **ret) {
        _cleanup_(watch_freep) struct watch *w = calloc(1, sizeof(*w));
        int r;

        if (!w)
                return -ENOMEM;
        w->changed = changed;
        w->userdata = userdata;
        w->sock = nl_socket_alloc();
        if (!w->sock)
                return -ENOMEM;
        nl_socket_disable_seq_check(w->sock);
        if (nl_connect(w->sock, NETLINK_ROUTE) < 0 || nl_socket_add_membership(w->sock, RTNLGRP_LINK) < 0 ||
            (routes && nl_socket_add_memberships(w->sock, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE, 0) < 0) ||
            nl_socket_set_nonblocking(w->sock) < 0)
                return -EIO;
        r = sd_event_add_io(e, &w->io, nl_socket_get_fd(w->sock), EPOLLIN, on_readable, w);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(w->io, "link and route changes");
        *ret = TAKE_PTR(w);
        return 0;
}

struct watch *watch_free(struct watch *w) {
        if (!w)
                return NULL;
        sd_event_source_disable_unref(w->io);
        if (w->sock)
                nl_socket_free(w->sock);
        free(w);
        return NULL;
}

unsigned watch_overruns(const struct watch *w) {
        return w->overruns;
}
