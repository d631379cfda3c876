/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once
/*
 * The kernel's types that net.bpf.c uses, as vmlinux.h is made (include/net/sock.h, inet_connection_sock.h,
 * tcp.h, net_namespace.h; include/linux/skbuff.h, netdevice.h, cgroup-defs.h, kernfs.h).
 */
#include "vmlinux.h"

#define AF_INET 2
#define AF_INET6 10

/* include/net/tcp_states.h */
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_TIME_WAIT 6
#define TCP_NEW_SYN_RECV 12

#define TCP_CA_RECOVERY 3        /* include/uapi/linux/tcp.h, enum tcp_ca_state */
#define TCP_CA_LOSS 4
#define ICSK_TIME_LOSS_PROBE 5   /* include/net/inet_connection_sock.h */
#define SKB_DST_NOREF_MASK 7UL   /* low bits of _skb_refdst are flags: include/linux/skbuff.h, dst.h */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
        unsigned int inum;
};

struct net {
        struct ns_common ns;
};

typedef struct {
        struct net *net;
} possible_net_t;

struct in6_addr {
        union {
                __be32 u6_addr32[4];
        } in6_u;
};

struct sock_common {
        union {
                struct {
                        __be32 skc_daddr;
                        __be32 skc_rcv_saddr;
                };
        };
        unsigned short skc_family;
        volatile unsigned char skc_state;
        possible_net_t skc_net;
        struct in6_addr skc_v6_daddr;
        struct in6_addr skc_v6_rcv_saddr;
};

struct kernfs_node {
        __u64 id;
};

struct cgroup {
        struct kernfs_node *kn;
};

struct sock_cgroup_data {
        struct cgroup *cgroup; /* from 5.15 on */
};

/* The group's address, but for its lowest bits; bit 0: it is what net_cls or net_prio of version 1 have
 * instead. */
struct sock_cgroup_data___before_515 {
        __u64 val;
};

struct sock {
        struct sock_common __sk_common;
        int sk_err;
        struct sock_cgroup_data sk_cgrp_data;
};

struct inet_connection_sock {
        __u8 icsk_ca_state : 5;
        __u8 icsk_pending;
};

struct tcp_sock {
        struct inet_connection_sock inet_conn;
};

struct net_device {
        possible_net_t nd_net;
};

struct dst_entry {
        struct net_device *dev;
};

struct sk_buff {
        struct net_device *dev;
        struct sock *sk;
        unsigned long _skb_refdst;
        char cb[48];
};

struct tcp_skb_cb {
        __u16 tcp_gso_segs;
};

enum skb_drop_reason { /* from 5.17 on */
        SKB_CONSUMED = 1, /* from 6.? on */
        SKB_DROP_REASON_NOT_SPECIFIED = 2,
};

#pragma clang attribute pop
