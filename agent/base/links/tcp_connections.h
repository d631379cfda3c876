/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The TCP connections of this network namespace as the kernel tells them over sock_diag (linux/inet_diag.h),
 * one after the other: nothing of the dump is kept, so that tens of thousands of them cost no memory. The
 * one reader of them: who wants to sum something up passes what takes one connection.
 */
#include "base.h"
#include "host.h"

#define TCP_ESTABLISHED_BIT (1u << 1) /* include/net/tcp_states.h */
#define TCP_CONNECTIONS_DUMP "/netlink/tcp"

struct tcp_connection {
        int family;                  /* AF_INET, AF_INET6; an IPv4 address inside of IPv6 is AF_INET */
        uint8_t local[16], peer[16]; /* of AF_INET the first four bytes; the others are 0 */
        uint16_t local_port, peer_port;
        uint8_t state; /* tcp_states.h */
        /* idiag_timer, as in ss(8): 1 the retransmission timer runs, 4 the probe of a closed window */
        uint8_t timer;
        uint32_t interface; /* that it is bound to, 0: none */
        uint32_t unread, unsent; /* bytes: not read by the program; not acknowledged by the peer */
        uint64_t cookie; /* no other socket of this boot has it */
        /* its id, which is the inode of its folder; 0 when this kernel does not tell (before 5.9) */
        uint64_t cgroup;
        /* struct tcp_info as long as this kernel knows it; NULL: not asked for, or not reported */
        const void *info;
        size_t info_size;
        /* numbers by SK_MEMINFO_* of linux/sock_diag.h; NULL: not asked for, or not reported */
        const uint32_t *memory;
        size_t n_memory;
};

/* An IPv4 address inside of IPv6 (::ffff:a.b.c.d) becomes one. */
void tcp_connection_unmap(struct tcp_connection *c);

struct tcp_query {
        uint32_t states; /* bits of tcp_states.h */
        bool with_info, with_memory;
        /* bytes of the answer; -E2BIG past it. With info one connection takes about 350 */
        size_t max;
};

/* Of either struct tcp_info (netinet/tcp.h, linux/tcp.h), size bytes: what the kernel does not tell is 0,
 * what it tells beyond that is left out. info must not be NULL. */
void tcp_connection_info(const struct tcp_connection *c, void *ret, size_t size);

/* < 0 ends the reading with that; c and what it points to is valid inside the call only. */
typedef int (*tcp_connection_func)(const struct tcp_connection *c, void *userdata);

/*
 * Calls take with each connection, of IPv4 and IPv6 in one dump: the older form of the question has both,
 * the newer one would walk the table once for each. With a root other than "/" they are those of the
 * dump TCP_CONNECTIONS_DUMP of that root. After an error some may have been given. -ENODATA: this root has
 * no dump; -ENOENT: a kernel without sock_diag; -E2BIG: more than query->max; -EBADMSG: malformed; -EINTR,
 * -EAGAIN: to be read again, which only the caller can, who knows what it has summed up; -ENOMEM.
 */
int tcp_connections_read(const struct host *h, const struct tcp_query *query, tcp_connection_func take,
                         void *userdata);
/*
 * One connection as it is now, in whatever state, by the addresses and ports of c: a hundredth of what a
 * dump costs, which walks the kernel's whole table. kernel: netlink_open(NETLINK_SOCK_DIAG). -ENOENT,
 * -ESTALE: it is closed.
 */
struct nl_sock;
int tcp_connection_ask(struct nl_sock *kernel, const struct tcp_connection *c,
                       const struct tcp_query *query, tcp_connection_func take, void *userdata);
/* Pure: the same of the bytes of a dump. */
int tcp_connections_parse(const void *data, size_t len, tcp_connection_func take, void *userdata);
