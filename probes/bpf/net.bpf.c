/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * TCP's troubles by peer, and packets that this host dropped, by reason and place. Only events are hooked
 * that are rare on a sound network: a retransmitted segment, a reset, a connection that begins or ends, a
 * dropped packet.
 */
#include "net_kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf_own.h"
#include "net_figures.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct bpf_own own = { 0 };
/* tcp_retransmit_skb has a third argument, and happens for what was not sent, too */
const volatile bool tells_error = false;
/* kfree_skb has a fourth argument: whom the packet was for (6.11) */
const volatile bool tells_socket = false;

struct net_figures figures;

/*
 * Who may write the key of an entry: who brings its number in here, or takes it out. Needs no
 * compare-and-swap, which programs have from Linux 5.12 on only. Drops are numbered behind peers, and keep
 * their entries.
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

static __always_inline struct net_peer *find_peer(const struct net_peer_key *key, __u64 now) {
        __u64 h = peer_hash(key);
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

/*
 * Once the first thing of ours was seen, no namespace's own memory is looked at any more: ours is not freed
 * before we are. The number of one that ends is given to another only when its devices and sockets are gone.
 */
static __always_inline bool is_own(struct net *net) {
        if (figures.own_net != 0)
                return (__u64) net == figures.own_net;
        if (BPF_CORE_READ(net, ns.inum) != own.netns)
                return false;
        figures.own_net = (__u64) net;
        return true;
}

static __always_inline bool is_ours(const struct sock *sk) {
        return is_own(sk->__sk_common.skc_net.net);
}

static __always_inline void put_address(__u64 to[2], __be32 v4) {
        to[0] = 0;
        to[1] = (__u64) v4 << 32 | 0xffff0000; /* little endian: 0, 0, 0xff, 0xff and the address */
}

static __always_inline __u64 two(const __be32 *halves) {
        return (__u64) halves[1] << 32 | halves[0];
}

static __always_inline __u64 cgroup_of(const struct sock *sk) {
        const struct sock_cgroup_data *data = &sk->sk_cgrp_data;
        const struct sock_cgroup_data___before_515 *older = (const void *) data;
        __u64 value;

        if (bpf_core_field_exists(data->cgroup))
                return BPF_CORE_READ(data, cgroup, kn, id);
        if (!bpf_core_field_exists(older->val))
                return 0;
        value = BPF_CORE_READ(older, val);
        return value & 1 ? 0 : BPF_CORE_READ((struct cgroup *) (value & ~3ULL), kn, id);
}

static __always_inline struct net_peer *peer_of(const struct sock *sk, __u64 now) {
        struct net_peer_key key = { 0 };

        if (sk->__sk_common.skc_family == AF_INET6) {
                for (int i = 0; i < 2; i++) {
                        key.peer[i] = two(&sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[2 * i]);
                        key.local[i] = two(&sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[2 * i]);
                }
        } else {
                put_address(key.peer, sk->__sk_common.skc_daddr);
                put_address(key.local, sk->__sk_common.skc_rcv_saddr);
        }
        key.cgroup = cgroup_of(sk);
        return find_peer(&key, now);
}

/* --- Retransmits --------------------------------------------------------------------------------------- */

/*
 * The timer takes its own mark away before it sends (tcp_write_timer_handler, ICSK_TIME_RETRANS), after TCP
 * went into the state Loss; what is sent later in that state follows acknowledgements.
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
        return ca < TCP_CA_RECOVERY && tp->inet_conn.icsk_pending == ICSK_TIME_LOSS_PROBE ? NET_PROBE
                                                                                          : NET_FAST;
}

static __always_inline __u64 segments_of(const struct sk_buff *skb) {
        __u16 n = 0;

        (void) bpf_probe_read_kernel(&n, sizeof(n),
                                     (const char *) skb + bpf_core_field_offset(skb->cb) +
                                             bpf_core_field_offset(struct tcp_skb_cb, tcp_gso_segs));
        return n > 0 ? n : 1;
}

static __always_inline void count_retransmit(struct net_counts *c, enum net_retransmit kind,
                                             __u64 segments) {
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
        p = peer_of(sk, bpf_ktime_get_boot_ns());
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

        return dev && is_own(dev->nd_net.net);
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
        p = is_whole(sk) ? peer_of(sk, bpf_ktime_get_boot_ns()) : 0;
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
        p = is_whole(sk) ? peer_of(sk, bpf_ktime_get_boot_ns()) : 0;
        if (p)
                add(&p->counts.resets_received, 1);
        return 0;
}

/* --- Connects ------------------------------------------------------------------------------------------ */

/* How many bits its microseconds less one have. */
static __always_inline __u32 bucket_of(__u64 ns) {
        __u64 us = ns / 1000, left = us > 0 ? us - 1 : 0;
        __u32 b = 0;

        for (__u32 half = 32; half > 0; half /= 2)
                if (left >> half) {
                        left >>= half;
                        b += half;
                }
        b += (__u32) left;
        return b < NET_CONNECT_BUCKETS ? b : NET_CONNECT_BUCKETS - 1;
}

static __always_inline void count_connect(struct net_counts *c, __u64 took, __u32 bucket) {
        add(&c->connects, 1);
        add(&c->connect_ns, took);
        add(&c->connect_histogram[bucket & (NET_CONNECT_BUCKETS - 1)], 1);
}

static __always_inline void begin_connect(__u64 id) {
        __u64 now = bpf_ktime_get_boot_ns();

        if (bpf_map_update_elem(&connecting, &id, &now, BPF_ANY) < 0)
                add(&figures.connects_lost, 1);
}

static __always_inline void end_connect(const struct sock *sk, __u64 id, int state) {
        __u64 *began = bpf_map_lookup_elem(&connecting, &id), now, took;
        struct net_peer *p;
        __u32 bucket;

        if (!began)
                return; /* it began before us, or found no room */
        now = bpf_ktime_get_boot_ns();
        took = now - *began;
        (void) bpf_map_delete_elem(&connecting, &id);
        if (state != TCP_ESTABLISHED && sk->sk_err == 0)
                return; /* given up by whoever wanted it */
        p = peer_of(sk, now);
        if (state == TCP_ESTABLISHED) {
                bucket = bucket_of(took);
                count_connect(&figures.all, took, bucket);
                if (p)
                        count_connect(&p->counts, took, bucket);
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

/* The location comes last: who finds it finds an entry. */
static __always_inline void begin_drop(__u32 at, __u32 reason, __u64 location) {
        struct net_drop *d = &figures.dropped[at];

        figures.drop_use[at] = NET_CHANGING;
        d->reason = reason;
        name_place(d, location);
        barrier();
        d->location = location;
        barrier();
        figures.drop_use[at] = NET_USED;
}

/* Where it is counted, from the place on where it should be; NET_DROPS: there is no room. */
static __noinline __u32 place_of(__u32 reason, __u64 location, __u32 from) {
        for (__u32 i = 0; i < NET_TRIES; i++) {
                __u32 at = (from + i) & (NET_DROPS - 1), number = NET_PEERS + at;
                __u8 one = 1;

                if (figures.dropped[at].location == location && figures.dropped[at].reason == reason)
                        return at;
                if (figures.drop_use[at] == NET_FREE &&
                    bpf_map_update_elem(&owners, &number, &one, BPF_NOEXIST) == 0) {
                        begin_drop(at, reason, location);
                        return at;
                }
        }
        return NET_DROPS;
}

/* In a storm this runs for every packet of it: two loads and an addition to what no other CPU writes. */
static __always_inline void count_drop(__u32 reason, __u64 location) {
        __u32 at = (__u32) (((location ^ reason) * 0x9e3779b97f4a7c15ULL) >> 40) & (NET_DROPS - 1);

        if (figures.dropped[at].location != location || figures.dropped[at].reason != reason)
                at = place_of(reason, location, at);
        if (at < NET_DROPS)
                add(&figures.drop_packets[bpf_get_smp_processor_id() & (NET_DROP_SHARES - 1)][at], 1);
        else
                add(&figures.drops_lost, 1);
}

enum whose { NOBODY_KNOWS, OURS, OTHERS };

static __always_inline enum whose whose(struct net *net) {
        return !net ? NOBODY_KNOWS : is_own(net) ? OURS : OTHERS;
}

static __always_inline enum whose whose_socket(const struct sock *sk) {
        __u16 family = sk->__sk_common.skc_family;

        return family == AF_INET || family == AF_INET6 ? whose(sk->__sk_common.skc_net.net) : OTHERS;
}

/*
 * By its device, the socket that it was for, its route, or the socket that sent it. What waits in a socket
 * has a number where the device was (dev_scratch), which never looks like an address of the kernel's: its
 * highest byte is a flag.
 */
static __always_inline enum whose whose_packet(const struct sk_buff *skb, const struct sock *receiver) {
        struct net_device *dev = skb->dev;
        struct sock *sender;
        unsigned long route;

        if ((long) dev < 0)
                return whose(dev->nd_net.net);
        if (receiver)
                return whose_socket(receiver);
        route = skb->_skb_refdst & ~SKB_DST_NOREF_MASK;
        if (route)
                return whose(BPF_CORE_READ((struct dst_entry *) route, dev, nd_net.net));
        sender = skb->sk;
        return sender ? whose_socket(sender) : NOBODY_KNOWS;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(drop, struct sk_buff *skb, void *location) {
        enum whose w = whose_packet(skb, tells_socket ? (const struct sock *) ctx[3] : 0);
        __u32 reason = 0;

        if (w == OTHERS)
                return 0;
        if (bpf_core_type_exists(enum skb_drop_reason)) {
                reason = (__u32) ctx[2];
                if (reason < SKB_DROP_REASON_NOT_SPECIFIED &&
                    bpf_core_enum_value_exists(enum skb_drop_reason, SKB_CONSUMED))
                        return 0; /* not dropped, consumed */
        }
        if (w == OURS)
                count_drop(reason, (__u64) location);
        else
                add(&figures.drops_unplaced, 1);
        return 0;
}
