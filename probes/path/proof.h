/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The search for the largest size that passes, and what the answers mean. Pure: time is an argument,
 * packets go in and out as values. All targets are worked on at once, each in rounds. Every round tries
 * full size (the NIC's MTU), whose answer ends the search, and beside it
 *
 *   first: nothing;
 *   while no size passed: two small ones, for is anybody there at all?
 *   between the largest that passed and the smallest that did not: up to twenty sizes, until the two are
 *     neighbours; then the one that did not pass three times more: a lost packet is no verdict;
 *   with these, UDP datagrams to a closed port, small and full. The answer to one is a short ICMP
 *   message, so a
 *     full one that is answered clears the path there.
 *
 * Where full size passed whole, PROOF_ECHOES small ones are sent and their answers counted: what loses some
 * packets of any size is no good path either.
 *
 * An answer counts whenever it comes, also after its round. Sizes are bytes of the whole IP packet, header
 * included.
 */
#include "base.h"

#define PROOF_TARGETS_MAX 4096
#define PROOF_LANES_MAX 64
#define PROOF_SMALL 128 /* the small size: every path carries it */
/* Each lane (NIC) sends at most so many packets in a slot: at 8896 bytes 1.7 Gbit/s, some 2 % of such a
 * NIC. */
#define PROOF_SLOT (10 * USEC_PER_MSEC)
#define PROOF_SLOT_PACKETS 240
#define PROOF_ROUND                                                                                         \
        (200 * USEC_PER_MSEC) /* how long a round waits for its answers; a data centre's is under 1 ms */
#define PROOF_DEADLINE                                                                                      \
        (1850 * USEC_PER_MSEC) /* from the first packet; what is not settled then is said so */
/* UDP datagrams to one target: Linux answers six at once to one asker, then one a second
 * (icmp_ratelimit). */
#define PROOF_UDP_MAX 6
/* Small echoes that are counted. Of a path that loses one packet in five, two of 40 are lost in 998 cases of
 * 1000. */
#define PROOF_ECHOES 40
#define PROOF_LOST_MIN 2 /* that many lost are a finding: one may be chance */

enum proof_kind {
        PROOF_ECHO,
        PROOF_UDP,
};

struct proof_target {
        uint32_t full; /* more than PROOF_SMALL */
        unsigned lane;
};

struct proof_packet {
        size_t target; /* index */
        enum proof_kind kind;
        uint32_t size;
        unsigned number; /* 1 to PROOF_ECHOES: it is counted; 0: it is not */
};

enum proof_answer {
        PROOF_OPEN, /* not finished */
        PROOF_PASSES, /* full size, there and back */
        PROOF_PIECES, /* full size there; the answer came in fragments of at most `passes` bytes */
        PROOF_SMALLER, /* `passes` do, full does not */
        PROOF_SILENT, /* no size was answered */
        PROOF_REFUSED, /* this host could not send: error */
};

enum proof_direction {
        PROOF_DIRECTION_UNKNOWN,
        PROOF_THERE, /* towards the peer; the path back is then not seen */
        PROOF_BACK, /* from the peer */
};

struct proof_result {
        enum proof_answer answer;
        enum proof_direction direction; /* of PROOF_SMALLER */
        uint32_t passes; /* largest size answered; 0: none */
        bool exact; /* passes + 1 was tried four times and does not */
        int error; /* -errno of PROOF_REFUSED */
        unsigned echoes, lost; /* counted; 0: they were not, or not all in time */
};

struct proof;
/* -EINVAL: a target's full size or lane out of range, none, or too many. */
int proof_new(const struct proof_target *targets, size_t n, struct proof **ret);
struct proof *proof_free(struct proof *p);
DEFINE_CLEANUP(struct proof *, proof_free)

/*
 * 1: send *ret now and ask again. 0: nothing to send before *ret_wake (USEC_INFINITY: all is settled). now
 * never runs backwards.
 */
int proof_next(struct proof *p, usec_t now, struct proof_packet *ret, usec_t *ret_wake);

/* The answer to a packet came. fragment: size of the largest piece it came in, 0 when it came whole. What
 * can never have been sent (no such target, smaller than PROOF_SMALL, larger than full) is ignored. */
void proof_answered(struct proof *p, const struct proof_packet *packet, uint32_t fragment);
/* The kernel refused to send it: the target is given up with -errno. */
void proof_refused(struct proof *p, const struct proof_packet *packet, int error);

void proof_result(const struct proof *p, size_t target, struct proof_result *ret);
