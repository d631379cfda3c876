/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One address of this host as the start of paths: a datagram ping socket and a UDP socket bound to it, both
 * with IP_PMTUDISC_PROBE, so that every packet carries "don't fragment" and no remembered path MTU holds
 * it back. Needs no right but a group in net.ipv4.ping_group_range (which counts for IPv6, too).
 *
 * What comes back is foreign: it counts only from the peer's own address, with our identifier (the kernel's
 * part), our secret and the length that was asked for.
 */
#include <sys/socket.h>

#include "path_address.h"
#include "proof.h"

/* Nothing listens there (RFC 863's discard; whoever runs it does not answer either). */
#define LANE_CLOSED_PORT 9

struct lane;
/* -EACCES: no ping socket is permitted; -EADDRNOTAVAIL: source is not of this host; others of socket(2).
 * secret: any number that peers cannot guess. */
int lane_new(const union path_address *source, uint64_t secret, struct lane **ret);
struct lane *lane_free(struct lane *l);
DEFINE_CLEANUP(struct lane *, lane_free)
int lane_ping_fd(const struct lane *l);
int lane_udp_fd(const struct lane *l);

/* Sends one packet of packet->size bytes. -EAGAIN: no room now (as good as lost); -EMSGSIZE: larger than the
 * NIC's MTU; others: no path there. */
int lane_send(struct lane *l, const union path_address *to, const struct proof_packet *packet);

/* One answer. from: who gave it. */
struct lane_answer {
        union path_address from;
        struct proof_packet packet;
        uint32_t fragment; /* as for proof_answered() */
};
/* 1 and an answer of either socket (to be checked against the target's address); 0: none is waiting. What is
 * not an answer to us is dropped. */
int lane_receive(struct lane *l, struct lane_answer *ret);

/* --- Pure, for tests and fuzzing -------------------------------------------------------------------- */

/* The head of each payload; the rest is zeros. */
struct lane_payload {
        uint64_t secret;
        uint32_t target, size;
        uint16_t sequence;
        uint8_t kind, number;
};
/* data: the first `got` bytes of an ICMP or ICMPv6 message of len bytes, as a ping socket gives it. -EBADMSG
 * when it is no answer to an echo of ours. */
int lane_parse_echo(int family, uint64_t secret, const void *data, size_t got, size_t len,
                    struct proof_packet *ret);
/* data: the first got bytes of the payload that an ICMP error quotes. */
int lane_parse_quote(uint64_t secret, const void *data, size_t got, struct proof_packet *ret);

/* What the kernel says beside a message. */
struct lane_control {
        uint32_t fragment; /* size of the largest piece it came in; 0: it came whole */
        bool port_unreachable; /* "nobody listens on that port", by offender itself */
        union path_address offender;
};
/* Ends at the first control message that is out of bounds. */
void lane_parse_control(struct msghdr *m, struct lane_control *ret);
