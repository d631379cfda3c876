/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * TCP's troubles by peer, and packets that this host dropped, by reason and place. Only events are hooked that are rare on a
 * sound network: a segment sent again, a reset, a connection that begins or ends, a dropped packet.
 */
#include "net_kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf_own.h"
#include "net_figures.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct bpf_own own = { 0 };
const volatile bool tells_error = false; /* tcp_retransmit_skb has a third argument, and happens for what was not sent, too */

struct net_figures figures;

/*
 * Who may write the key of an entry: who brings its number in here, or takes it out. Needs no compare-and-swap, which
 * programs have from Linux 5.12 on only. Drops are numbered behind peers.
 */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, NET_PEERS + NET_DROPS);
        __type(key, __u32);
        __type(value, __u8);
} owners SEC(".maps");

/* When a connect began, by socket. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, 1024);
        __type(key, __u64);
        __type(value, __u64);
} connecting SEC(".maps");

/* --- Entries ------------------------------------------------------------------------------------------- */

static __always_inline void add(__u64 *to, __u64 n) {
        __sync_fetch_and_add(to, n);
}

static __always_inline __u64 mix(__u64 h, __u64 v) {
        h = (h ^ v) * 0x9e3779b97f4a7c15ULL; /* Knuth, multiplicative hashing: 2^64 over the golden ratio */
        return h ^ (h >> 29);
}

/* A free entry, or one that nothing happened to for long, is ours alone from now on. */
static __always_inline bool claim(__u32 number, __u32 used, __u64 last_ns, __u64 now) {
        __u8 one = 1;

        if (used == NET_FREE)
                return bpf_map_update_elem(&owners, &number, &one, BPF_NOEXIST) == 0;
        if (used != NET_USED || last_ns + NET_IDLE_NS > now || bpf_map_delete_elem(&owners, &number) < 0)
                return false;
        (void) bpf_map_update_elem(&owners, &number, &one, BPF_ANY);
        return true;
}

static __always_inline bool same_key(const struct net_peer_key *a, const struct net_peer_key *b) {
        return a->peer[0] == b->peer[0] && a->peer[1] == b->peer[1] && a->local[0] == b->local[0] &&
               a->local[1] == b->local[1] && a->cgroup == b->cgroup;
}

static __always_inline __u64 peer_hash(const struct net_peer_key *k) {
        return mix(mix(mix(mix(k->cgroup, k->peer[0]), k->peer[1]), k->local[0]), k->local[1]) >> 20;
}

static __noinline struct net_peer *new_peer(const struct net_peer_key *key, __u64 h, __u64 now) {
        for (int i = 0; i < NET_TRIES; i++) {
                __u32 at = (h + i) & (NET_PEERS - 1);
                struct net_peer *p = &figures.peers[at];

                if (!claim(at, figures.peer_use[at], p->last_ns, now))
                        continue;
                figures.peer_use[at] = NET_CHANGING;
                __builtin_memset(&p->counts, 0, sizeof(p->counts));
                p->key = *key;
                p->last_ns = now;
                figures.peer_use[at] = NET_USED;
                return p;
        }
        return 0;
}

static __always_inline struct net_peer *find_peer(const struct net_peer_key *key) {
        __u64 h = peer_hash(key), now = bpf_ktime_get_boot_ns();
        struct net_peer *p;

        for (int i = 0; i < NET_TRIES; i++) {
                __u32 at = (h + i) & (NET_PEERS - 1);

                if (figures.peer_use[at] == NET_FREE)
                        break;
                p = &figures.peers[at];
                if (figures.peer_use[at] == NET_USED && same_key(&p->key, key)) {
                        p->last_ns = now;
                        return p;
                }
        }
        p = new_peer(key, h, now);
        if (!p)
                add(&figures.peers_lost, 1);
        return p;
}

/* --- Sockets ------------------------------------------------------------------------------------------- */

static __always_inline bool is_ours(const struct sock *sk) {
        return sk->__sk_common.skc_net.net->ns.inum == own.netns;
}

static __always_inline void put_address(__u64 to[2], __be32 v4) {
        to[0] = 0;
        to[1] = (__u64) v4 << 32 | 0xffff0000; /* little endian: 0, 0, 0xff, 0xff and the address */
}

static __always_inline __u64 cgroup_of(const struct sock *sk) {
        if (!bpf_core_field_exists(sk->sk_cgrp_data.cgroup))
                return 0;
        return BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
}

static __always_inline struct net_peer *peer_of(const struct sock *sk) {
        struct net_peer_key key = { 0 };

        if (sk->__sk_common.skc_family == AF_INET6) {
                BPF_CORE_READ_INTO(&key.peer, sk, __sk_common.skc_v6_daddr);
                BPF_CORE_READ_INTO(&key.local, sk, __sk_common.skc_v6_rcv_saddr);
        } else {
                put_address(key.peer, sk->__sk_common.skc_daddr);
                put_address(key.local, sk->__sk_common.skc_rcv_saddr);
        }
        key.cgroup = cgroup_of(sk);
        return find_peer(&key);
}

/* --- Retransmits --------------------------------------------------------------------------------------- */

/*
 * The timer takes its own mark away before it sends (tcp_write_timer_handler, ICSK_TIME_RETRANS), after TCP went into
 * the state Loss; what is sent later in that state follows acknowledgements.
 */
static __always_inline enum net_retransmit kind_of(const struct sock *sk) {
        unsigned char state = sk->__sk_common.skc_state;
        struct tcp_sock *tp;
        __u8 ca;

        if (state == TCP_SYN_SENT || state == TCP_SYN_RECV || state == TCP_NEW_SYN_RECV)
                return NET_SYN;
        tp = bpf_skc_to_tcp_sock((void *) sk);
        if (!tp)
                return NET_FAST;
        ca = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
        if (ca == TCP_CA_LOSS && tp->inet_conn.icsk_pending == 0)
                return NET_RTO;
        return ca < TCP_CA_RECOVERY && tp->inet_conn.icsk_pending == ICSK_TIME_LOSS_PROBE ? NET_PROBE : NET_FAST;
}

static __always_inline __u64 segments_of(const struct sk_buff *skb) {
        __u16 n = 0;

        (void) bpf_probe_read_kernel(&n, sizeof(n),
                                     (const char *) skb + bpf_core_field_offset(skb->cb) +
                                             bpf_core_field_offset(struct tcp_skb_cb, tcp_gso_segs));
        return n > 0 ? n : 1;
}

static __always_inline void count_retransmit(struct net_counts *c, enum net_retransmit kind, __u64 segments) {
        add(&c->retransmits[kind & 3], segments);
        add(&c->events[kind & 3], 1);
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(retransmit, const struct sock *sk, const struct sk_buff *skb) {
        enum net_retransmit kind;
        struct net_peer *p;
        __u64 segments;

        if (!is_ours(sk) || (tells_error && (int) ctx[2] != 0))
                return 0;
        kind = kind_of(sk);
        segments = segments_of(skb);
        count_retransmit(&figures.all, kind, segments);
        p = peer_of(sk);
        if (p)
                count_retransmit(&p->counts, kind, segments);
        return 0;
}

/* --- Resets -------------------------------------------------------------------------------------------- */

static __always_inline bool is_whole(const struct sock *sk) {
        unsigned char state = sk->__sk_common.skc_state;

        return state != TCP_TIME_WAIT && state != TCP_NEW_SYN_RECV;
}

static __always_inline bool is_our_packet(const struct sk_buff *skb) {
        struct net_device *dev = skb->dev;

        return dev && BPF_CORE_READ(dev, nd_net.net, ns.inum) == own.netns;
}

SEC("tp_btf/tcp_send_reset")
int BPF_PROG(send_reset, const struct sock *sk, const struct sk_buff *skb) {
        struct net_peer *p;

        if (!sk) {
                if (skb && is_our_packet(skb))
                        add(&figures.resets_without_socket, 1);
                return 0;
        }
        if (!is_ours(sk))
                return 0;
        add(&figures.all.resets_sent, 1);
        p = is_whole(sk) ? peer_of(sk) : 0;
        if (p)
                add(&p->counts.resets_sent, 1);
        return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(receive_reset, const struct sock *sk) {
        struct net_peer *p;

        if (!is_ours(sk))
                return 0;
        add(&figures.all.resets_received, 1);
        p = is_whole(sk) ? peer_of(sk) : 0;
        if (p)
                add(&p->counts.resets_received, 1);
        return 0;
}

/* --- Connects ------------------------------------------------------------------------------------------ */

static __always_inline __u32 bucket_of(__u64 ns) {
        __u64 us = ns / 1000;
        __u32 b = 0;

        for (int i = 0; i < NET_CONNECT_BUCKETS - 1; i++)
                if (us > 1ULL << i)
                        b = i + 1;
        return b;
}

static __always_inline void count_connect(struct net_counts *c, __u64 took) {
        add(&c->connects, 1);
        add(&c->connect_ns, took);
        add(&c->connect_histogram[bucket_of(took) & (NET_CONNECT_BUCKETS - 1)], 1);
}

static __always_inline void begin_connect(__u64 id) {
        __u64 now = bpf_ktime_get_boot_ns();

        if (bpf_map_update_elem(&connecting, &id, &now, BPF_ANY) < 0)
                add(&figures.connects_lost, 1);
}

static __always_inline void end_connect(const struct sock *sk, __u64 id, int state) {
        __u64 *began = bpf_map_lookup_elem(&connecting, &id), took;
        struct net_peer *p;

        if (!began)
                return; /* it began before us, or found no room */
        took = bpf_ktime_get_boot_ns() - *began;
        (void) bpf_map_delete_elem(&connecting, &id);
        if (state != TCP_ESTABLISHED && sk->sk_err == 0)
                return; /* given up by whoever wanted it */
        p = peer_of(sk);
        if (state == TCP_ESTABLISHED) {
                count_connect(&figures.all, took);
                if (p)
                        count_connect(&p->counts, took);
                return;
        }
        add(&figures.all.connect_failures, 1);
        if (p)
                add(&p->counts.connect_failures, 1);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(set_state, const struct sock *sk, int before, int now) {
        if (before != TCP_SYN_SENT && now != TCP_SYN_SENT)
                return 0;
        if (!is_ours(sk))
                return 0;
        if (now == TCP_SYN_SENT)
                begin_connect((__u64) sk);
        else
                end_connect(sk, (__u64) sk, now);
        return 0;
}

/* --- Drops --------------------------------------------------------------------------------------------- */

/* Once for each place: the kernel itself names it. */
static __always_inline void name_place(struct net_drop *d, __u64 location) {
        if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_snprintf))
                BPF_SNPRINTF(d->symbol, sizeof(d->symbol), "%pS", location);
}

static __noinline struct net_drop *new_drop(__u32 reason, __u64 location, __u64 h) {
        __u64 now = bpf_ktime_get_boot_ns();

        for (int i = 0; i < NET_TRIES; i++) {
                __u32 at = (h + i) & (NET_DROPS - 1);
                struct net_drop *d = &figures.dropped[at];

                if (!claim(NET_PEERS + at, figures.drop_use[at], d->last_ns, now))
                        continue;
                figures.drop_use[at] = NET_CHANGING;
                d->reason = reason;
                d->location = location;
                d->packets = 0;
                d->last_ns = now;
                name_place(d, location);
                figures.drop_use[at] = NET_USED;
                return d;
        }
        return 0;
}

static __always_inline struct net_drop *find_drop(__u32 reason, __u64 location) {
        __u64 h = mix(reason, location) >> 20;

        for (int i = 0; i < NET_TRIES; i++) {
                __u32 at = (h + i) & (NET_DROPS - 1);
                struct net_drop *d = &figures.dropped[at];

                if (figures.drop_use[at] == NET_FREE)
                        break;
                if (figures.drop_use[at] == NET_USED && d->reason == reason && d->location == location) {
                        d->last_ns = bpf_ktime_get_boot_ns();
                        return d;
                }
        }
        return new_drop(reason, location, h);
}

static __always_inline unsigned int netns_of_device(struct net_device *dev) {
        return BPF_CORE_READ(dev, nd_net.net, ns.inum);
}

/*
 * Of which namespace a packet is: its device's, its route's, or its socket's. The device of one that waits in a socket is
 * no pointer (dev_scratch): what is read then is no number of ours. 0: nobody knows.
 */
static __always_inline unsigned int netns_of(const struct sk_buff *skb) {
        struct net_device *dev = skb->dev;
        unsigned long route = skb->_skb_refdst & ~SKB_DST_NOREF_MASK;
        struct sock *sk = skb->sk;

        if (dev)
                return netns_of_device(dev);
        if (route)
                return netns_of_device(BPF_CORE_READ((struct dst_entry *) route, dev));
        if (sk && (sk->__sk_common.skc_family == AF_INET || sk->__sk_common.skc_family == AF_INET6))
                return BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
        return sk ? ~0U : 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(drop, struct sk_buff *skb, void *location) {
        unsigned int netns = netns_of(skb);
        __u32 reason = 0;
        struct net_drop *d;

        if (netns != own.netns) {
                if (netns == 0)
                        add(&figures.drops_unplaced, 1);
                return 0;
        }
        if (bpf_core_type_exists(enum skb_drop_reason)) {
                reason = (__u32) ctx[2];
                if (reason < SKB_DROP_REASON_NOT_SPECIFIED && bpf_core_enum_value_exists(enum skb_drop_reason, SKB_CONSUMED))
                        return 0; /* not dropped, consumed */
        }
        add(&figures.drops, 1);
        d = find_drop(reason, (__u64) location);
        if (d)
                add(&d->packets, 1);
        else
                add(&figures.drops_lost, 1);
        return 0;
}
