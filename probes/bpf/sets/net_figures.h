/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once
/*
 * What net.bpf.c counts, of the sockets and packets of our own network namespace, since it was loaded: one
 * struct that the programs write while others read it. Every number only rises; those of one entry need not
 * be of the same moment.
 *
 * An entry counts when its use is NET_USED. One that nothing happened to for NET_IDLE_NS may be given to
 * another peer: its key has changed then, and it starts from 0. Two entries of one key are possible (two
 * CPUs began it at once) and are to be added up.
 */
#ifndef __bpf__
#include <linux/types.h>
#include <stddef.h>
#endif

#define NET_PEERS 2048 /* powers of two; twice as many as are wanted, so that places are found at once */
#define NET_DROPS 256
#define NET_DROP_SHARES 32 /* of a count of drops, by the number of the CPU */
#define NET_TRIES 16      /* entries that are looked at for a key */
#define NET_IDLE_NS (3600ULL * 1000 * 1000 * 1000)
#define NET_REASONS 192   /* values of enum skb_drop_reason that have a name here (131 in Linux 6.18) */
#define NET_REASON_NAME 40
#define NET_SYMBOL 64
#define NET_CONNECT_BUCKETS 32 /* bucket b: up to 2^b µs; the last one: longer */

enum net_use {
        NET_FREE = 0,
        NET_CHANGING, /* its key is being written */
        NET_USED,
};

/* Addresses as in6_addr, IPv4 as ::ffff:a.b.c.d. */
struct net_peer_key {
        __u64 peer[2], local[2];
        __u64 cgroup; /* id of the socket's cgroup2 (INET_DIAG_CGROUP_ID says the same); 0: not known */
};

/* Retransmitted segments, by what made TCP do so. */
enum net_retransmit {
        NET_FAST,    /* duplicate or selective acknowledgements */
        NET_RTO,     /* the retransmission timer ran out */
        NET_PROBE,   /* tail loss probe */
        NET_SYN,     /* a SYN or SYN-ACK was not answered */
        _NET_RETRANSMIT_MAX,
};

struct net_counts {
        __u64 retransmits[_NET_RETRANSMIT_MAX]; /* segments */
        __u64 events[_NET_RETRANSMIT_MAX];      /* packets handed down: one is many segments with TSO */
        __u64 resets_sent, resets_received;
        __u64 connects, connect_failures; /* that we began; failures: refused, unreachable, timed out */
        __u64 connect_ns;                 /* of all connects together */
        __u64 connect_histogram[NET_CONNECT_BUCKETS];
};

struct net_peer {
        __u64 last_ns; /* boot clock */
        struct net_peer_key key;
        struct net_counts counts;
};

struct net_drop {
        __u64 location; /* address in the kernel */
        __u32 reason;   /* enum skb_drop_reason of this kernel; 0 before Linux 5.17 */
        __u32 unused;
        char symbol[NET_SYMBOL]; /* "tcp_v4_rcv+0x1f3/0xe80"; empty before Linux 5.13 */
};

struct net_figures {
        struct net_counts all; /* what found no room among the peers, too */
        __u64 peers_lost, drops_lost, connects_lost; /* events that found no room in the tables */
        __u64 resets_without_socket;                 /* sent: nobody listened */
        __u64 drops_unplaced; /* packets of which the namespace is not known; not among dropped */
        /* enum net_use; apart, so that looking for them touches little memory */
        __u8 peer_use[NET_PEERS], drop_use[NET_DROPS];
        struct net_peer peers[NET_PEERS];
        struct net_drop dropped[NET_DROPS];
        __u64 drop_packets[NET_DROP_SHARES][NET_DROPS]; /* added up: net_drop_packets() */
        char reasons[NET_REASONS][NET_REASON_NAME]; /* names of this kernel's reasons, "SOCKET_RCVBUFF" */
        __u64 own_net; /* for the programs: where the kernel keeps our namespace; 0: not yet seen */
};

#ifndef __bpf__
static inline __u64 net_drop_packets(const struct net_figures *f, size_t at) {
        __u64 n = 0;

        for (size_t i = 0; i < NET_DROP_SHARES; i++)
                n += __atomic_load_n(&f->drop_packets[i][at], __ATOMIC_RELAXED);
        return n;
}
#endif
