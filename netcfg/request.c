/* SPDX-License-Identifier: Apache-2.0 */
#include <netlink/netlink.h>
#include <netlink/socket.h>

#include "request.h"

DEFINE_CLEANUP(struct nl_sock *, nl_socket_free)

/* libnl folds several errnos into one number of its own: keep the kernel's. */
static int keep_errno(struct sockaddr_nl *from, struct nlmsgerr *e, void *userdata) {
        (void) from;
        *(int *) userdata = e->error;
        return NL_STOP;
}

int request_do(struct nl_msg *m) {
        _cleanup_(nl_socket_freep) struct nl_sock *s = nl_socket_alloc();
        int answer = 0, r;

        if (!s)
                return -ENOMEM;
        errno = 0;
        if (nl_socket_modify_err_cb(s, NL_CB_CUSTOM, keep_errno, &answer) < 0 ||
            nl_connect(s, NETLINK_ROUTE) < 0 || nl_send_auto(s, m) < 0)
                return errno ? -errno : -EIO;
        r = nl_wait_for_ack(s);
        if (answer < 0)
                return answer;
        return r < 0 ? -EIO : 0;
}
