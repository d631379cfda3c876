/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The sockets of another process with their queues and addresses, whichever network namespace they are in:
 * each is copied (pidfd_getfd(2), Linux 5.6, needs the right to trace), asked and closed at once. Nothing
 * else is copied: of a pipe or a device a copy would delay what its last close means.
 */
#include "descriptor.h"
#include "host_capture.h"

#define SOCKETS_MAX        4096u /* of one process */
#define SOCKET_ADDRESS_MAX 128u

struct process_socket {
        struct captured_socket s;                                   /* but for its strings, */
        char local[SOCKET_ADDRESS_MAX], remote[SOCKET_ADDRESS_MAX]; /* which are here */
};
struct sockets {
        struct process_socket *items; /* in the order of their inodes; one that is open twice stands once */
        size_t n, size;
        bool cut;  /* there are more */
        int error; /* why those that were found were not asked; 0 */
};
void sockets_clear(struct sockets *l);

/* -errno of listing; that a socket was not to be had is said in error. */
int sockets_read(const struct process *p, struct sockets *ret);

/* Pure: "10.0.0.1:80", "[::1]:80", a path, "@NAME" of an abstract one; IPv4 inside of IPv6 as IPv4. "" for
 * others. */
void socket_address_text(const void *address, size_t len, char buf[static SOCKET_ADDRESS_MAX]);
