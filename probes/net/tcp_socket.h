/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One TCP socket as the kernel tells it over sock_diag: who talks to whom, and its figures. Pure. Kernels
 * append to what they tell: what one does not tell is left 0 and said so, what we do not know is passed
 * over.
 */
#include "tcp_connections.h"

/* The states to ask for (include/net/tcp_states.h): those that send, or want to. */
#define TCP_SOCKET_STATES ((1u << 1) | (1u << 2) | (1u << 4) | (1u << 8) | (1u << 9) | (1u << 11))
#define TCP_STATE_SYN_SENT 2
#define TCP_TIMER_REPEAT 1 /* idiag_timer, as in ss(8): the retransmission timer runs */

/*
 * struct tcp_info as the kernel has it, Linux 6.12 (include/uapi/linux/tcp.h): the C library's and older
 * kernels' headers have less of it. Times are in microseconds where nothing else is said.
 */
struct tcp_figures {
        uint8_t state, ca_state, retransmits, probes, backoff, options, scales, flags;
        uint32_t rto, ato, snd_mss, rcv_mss;
        uint32_t unacked, sacked, lost, retrans, fackets;                      /* segments */
        uint32_t last_data_sent, last_ack_sent, last_data_recv, last_ack_recv; /* milliseconds ago */
        uint32_t pmtu, rcv_ssthresh, rtt, rttvar, snd_ssthresh, snd_cwnd, advmss, reordering;
        uint32_t rcv_rtt, rcv_space, total_retrans;
        uint64_t pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
        uint32_t segs_out, segs_in, notsent_bytes, min_rtt, data_segs_in, data_segs_out;
        uint64_t delivery_rate; /* bytes a second */
        uint64_t busy_time, rwnd_limited, sndbuf_limited;
        uint32_t delivered, delivered_ce;
        uint64_t bytes_sent, bytes_retrans;
        uint32_t dsack_dups, reord_seen, rcv_ooopack, snd_wnd, rcv_wnd, rehash;
        uint16_t total_rto, total_rto_recoveries;
        uint32_t total_rto_time;
};

struct tcp_socket {
        int family; /* AF_INET, AF_INET6; an IPv4 address inside of IPv6 is AF_INET */
        uint8_t local[16], peer[16];
        uint8_t state, timer;
        int nic;         /* that it is bound to; 0: none */
        uint64_t cookie; /* the kernel's name of the socket, never used again in a boot */
        uint64_t cgroup; /* of version 2, by its inode number; 0: not told (Linux before 5.8) */
        struct tcp_figures figures;
        bool has_figures;
        bool has_timeouts;              /* the kernel counts them itself (Linux 6.7) */
        bool has_sent;                  /* bytes_sent is told (Linux 4.19) */
        uint32_t receive_buffer, drops; /* drops: segments thrown away; wraps */
        bool has_memory;
};

/* Never fails: what is not told stays 0. */
void tcp_socket_take(const struct tcp_connection *c, struct tcp_socket *ret);
/* An IPv4 address inside of IPv6 becomes one. */
void tcp_socket_unmap(struct tcp_socket *s);
