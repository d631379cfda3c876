/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the kernel tells of one TCP socket over sock_diag. Kernels append to it: what one does not tell
 * is 0. */
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

/* The ends of what older kernels tell. */
#define TCP_SENT_END (offsetof(struct tcp_figures, bytes_sent) + sizeof(uint64_t))    /* Linux 4.19 */
#define TCP_TIMEOUTS_END (offsetof(struct tcp_figures, total_rto) + sizeof(uint16_t)) /* Linux 6.7 */
_Static_assert(sizeof(struct tcp_figures) == 248 && TCP_TIMEOUTS_END == 242 && TCP_SENT_END == 208,
               "as the kernel lays it out");
