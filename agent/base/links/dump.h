/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Dumps over netlink: asking the kernel for a whole table, or taking its recorded answer, and walking over
 * it. What is walked over may come from anywhere.
 */
#include <linux/netlink.h>

#include "base.h"
#include "host.h"

/* A dump is asked for again, up to this often, when the table changed while it was read (-EINTR). */
#define DUMP_TRIES 5

struct dump_request {
        int protocol;     /* NETLINK_ROUTE, which is 0; NETLINK_SOCK_DIAG */
        uint16_t type;    /* RTM_GETLINK, … */
        const void *head; /* struct ifinfomsg, rtmsg, … */
        size_t head_size;
        bool skip_statistics; /* of links */
        size_t max;           /* -E2BIG past so many bytes */
};

/* The raw bytes of the kernel's answer, to be freed. -EINTR and -EAGAIN: ask again. */
int dump_read(const struct dump_request *request, char **ret, size_t *ret_len);
/* The same from a file of a recorded root; -ENODATA when it has none. */
int dump_read_recorded(const struct host *h, const char *path, size_t max, char **ret, size_t *ret_len);

/*
 * Calls message with each message up to the NLMSG_DONE that ends the dump, until one returns less than 0.
 * Messages are aligned and writable, and only valid inside the call. -EBADMSG when the bytes are anything
 * else, or less; an NLMSG_ERROR is its errno; -EINTR when the kernel says that the table changed while it
 * was read.
 */
int dump_parse(const void *data, size_t len, int (*message)(struct nlmsghdr *h, void *userdata),
               void *userdata);
/* dump_parse() of the kernel's answer while it comes, one datagram at a time: for tables that may be long. After an
 * error message may have been called already; -EINTR and -EAGAIN as of dump_read(). */
int dump_each(const struct dump_request *request, int (*message)(struct nlmsghdr *h, void *userdata), void *userdata);
