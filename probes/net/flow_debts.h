/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who owes whom at one moment, as the sockets of this host show it. Pure.
 *
 * Only sockets that move with the steps count. Such a socket moved bytes between the dumps of the ticks, and
 * has rested since the run rests. A heartbeat goes on, a control connection never moved. Each direction is
 * looked at alone: one that was not used in the last steps is FLOW_NEVER. A socket with data that nobody
 * acknowledges counts always.
 *
 * Of each socket one turn follows. Its two times are compared with each other, or, where it only receives,
 * with the time when this host last sent to anybody. Of several that wait, only those count that have waited
 * longest: who exchanges with all peers at once is behind every peer for a moment.
 *
 * Sockets of one peer with one turn are one entry. So two ranks of a host stay apart where they differ,
 * though nobody says which process has which socket. Bounded; what finds no room is counted.
 */
#include "flows.h"

#define FLOW_DEBTS_MAX 64u
#define FLOW_NEVER UINT32_MAX

enum flow_turn {
        FLOW_TURN_OPEN,  /* both times are about the same: nothing is known */
        FLOW_TURN_OWES,  /* the peer's data lies unread here, or came after this host had last sent */
        FLOW_TURN_WAITS, /* this host sent after the peer's data had last come, or the peer takes no more */
        FLOW_TURN_SENDS, /* nothing comes from there */
        FLOW_TURN_BAD,   /* what was sent there is retransmitted, and nobody answers */
        _FLOW_TURN_MAX,
};
const char *flow_turn_name(enum flow_turn t);

struct flow_debt {
        uint8_t family, local[16], peer[16];
        enum flow_turn turn;
        uint32_t sent_msec, received_msec; /* ago, the youngest; FLOW_NEVER */
        uint64_t unread, unsent;           /* bytes; unsent: not acknowledged by the peer */
};

struct flow_debts {
        uint32_t silent_msec, step_msec; /* since the last step line; of a step. 0: not known */
        double same; /* FLOW_DEBTS_SAME, or as the caller sets it behind begin */
        uint32_t line_msec;              /* between two step lines: one may report several steps */
        struct flow_debt debts[FLOW_DEBTS_MAX];
        size_t n;
        unsigned left_out; /* sockets that found no room */
        enum flow_turn by_bytes; /* of the next socket, where its times say nothing; set by the caller */
};

/* Two times are one within a part of a step: what a run does between receiving and sending takes longer. */
#define FLOW_DEBTS_SAME 0.15
/* While steps go on, hosts are apart by more than that for a moment. */
#define FLOW_DEBTS_SAME_NOW 0.3
#define FLOW_DEBTS_SAME_LEAST 20u /* ms; clocks of sockets tick every 4 ms at worst */
#define FLOW_DEBTS_SAME_UNKNOWN 100u

/* One dump: begin, each socket, end. run: its place in f, whose marks are of the tick's last dumps. */
#define FLOW_DEBTS_NOW 1u /* silent_msec while steps go on */
void flow_debts_begin(struct flow_debts *d, uint32_t silent_msec, uint32_t step_msec, uint32_t line_msec);
void flow_debts_take(struct flow_debts *d, const struct flows *f, uint8_t run,
                     const struct tcp_connection *s);
/* Who is ahead on a connection, by bytes: a run that makes its batches ahead sends the next message as
 * soon as it has the last, so both times are one. sent: acknowledged; both since the connection began.
 * moved: both directions together, in the last `steps` steps. Only where they move alike, and one is
 * ahead by about a message; else FLOW_TURN_OPEN. */
enum flow_turn flow_turn_by_bytes(uint64_t sent, uint64_t received, uint64_t moved, double steps);
/* Whether it would count: it moves with the steps. */
bool flow_debts_counts(const struct flow_debts *d, const struct flows *f, uint8_t run,
                       const struct tcp_connection *s);
void flow_debts_end(struct flow_debts *d);
