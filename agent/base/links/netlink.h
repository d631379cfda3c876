/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Netlink, as everybody here speaks it: one question with one answer, a dump of a whole table, and the
 * recorded dumps of a root other than "/". Sockets, messages and attributes are libnl's; what comes is
 * walked over here, for recorded bytes may come from anywhere (docs/dependencies.md says why libnl-route
 * reads none of it).
 */
#include <linux/netlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>

#include "base.h"
#include "host.h"

DEFINE_CLEANUP(struct nl_msg *, nlmsg_free)
DEFINE_CLEANUP(struct nl_sock *, nl_socket_free)

/* Is called with each message, until one returns other than 0. Messages are aligned and writable, and only
 * valid inside the call. */
typedef int (*netlink_message_func)(struct nlmsghdr *h, void *userdata);

/* --- Questions --- */

/* A connected socket: NETLINK_ROUTE, NETLINK_GENERIC, NETLINK_SOCK_DIAG. It asks for acknowledgements by
 * NLM_F_ACK only. */
int netlink_open(int protocol, struct nl_sock **ret);
/* NULL: out of memory. */
struct nl_msg *netlink_message(int type, int flags, const void *head, size_t size);
/*
 * Asks and takes the one datagram that answers. 0: message took something from it (returned more than 0);
 * -ENODATA: nothing, as from an acknowledgement; an NLMSG_ERROR is its errno.
 */
int netlink_ask(struct nl_sock *s, struct nl_msg *m, netlink_message_func message, void *userdata);
/* The same of one question over rtnetlink that the kernel acknowledges. 0, or the kernel's own -errno. */
int netlink_do(struct nl_msg *m);
/* What netlink_ask() makes of these bytes. -EBADMSG when they are no messages. Pure. */
int netlink_find(const void *data, size_t len, netlink_message_func message, void *userdata);

/* --- Dumps --- */

/* A dump is asked for again, up to this often, when the table changed while it was read (-EINTR). */
#define NETLINK_TRIES 5

struct dump_request {
        int protocol;     /* NETLINK_ROUTE, which is 0; NETLINK_SOCK_DIAG */
        uint16_t type;    /* RTM_GETLINK, … */
        const void *head; /* struct ifinfomsg, rtmsg, … */
        size_t head_size;
        bool skip_statistics; /* of links */
        size_t max;           /* -E2BIG past so many bytes */
};

/*
 * Calls message with each message of the kernel's answer while it comes, so that nothing of it is kept.
 * 1: message returned more than 0; after an error message may have been called already. -EINTR: the
 * table changed while it was read; -EAGAIN: a datagram was lost; both: ask again.
 */
int dump_each(const struct dump_request *request, netlink_message_func message, void *userdata);
/*
 * The same of recorded bytes, which must end with the NLMSG_DONE of the dump: -EBADMSG when they are
 * anything else, or less; an NLMSG_ERROR is its errno.
 */
int dump_parse(const void *data, size_t len, netlink_message_func message, void *userdata);
/* The bytes of a file of a recorded root, to be freed; -ENODATA when it has none. */
int dump_read_recorded(const struct host *h, const char *path, size_t max, char **ret, size_t *ret_len);

/* --- Tables: a dump as an array --- */

struct dump_table {
        struct dump_request request;
        const char *recorded; /* where a root other than "/" keeps it: "/netlink/links" */
        uint16_t answer;      /* type of its messages: RTM_NEWLINK, … */
        size_t item_size, items_max; /* -E2BIG past so many */
        /* 1: *ret_item is one more; 0: passed over; -errno. */
        int (*parse)(struct nlmsghdr *h, void *ret_item);
};

/* Of the kernel, or of h's root: *ret_items is to be freed. -ENODATA: this root has no such dump. */
int dump_table_read(const struct host *h, const struct dump_table *t, void *ret_items, size_t *ret_n);
/* Of these bytes. Pure. */
int dump_table_parse(const void *data, size_t len, const struct dump_table *t, void *ret_items,
                     size_t *ret_n);
