/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who owes whom, by the sockets alone: without a stack, a symbol or a name. On the connections that the
 * steps use, data of others lies unread at a rank; or a rank has received after it last sent, and the others
 * lack what comes next; or what is sent to it is not taken.
 *
 * Connections of the steps are those between ranks that fell silent when most did: what moved between the
 * captures or is younger than half of that (heartbeats), and what is much older (rendezvous), is left out.
 */
#include "evidence.h"

/* `from` waits for `to`. */
struct debt_edge {
        uint32_t from, to; /* nodes (chain.h) */
        double weight;
        uint32_t unread; /* bytes of `from` that lie unread at `to` */
};
struct rank_debts {
        uint64_t unread;    /* bytes of others that lie here */
        bool known;         /* it has received and sent on connections of the steps */
        bool cut;           /* one of its connections loses what is sent, in either direction */
        bool owes;          /* it alone received last, long after it last sent */
        int64_t owes_ms;    /* by how much; of who owes nothing 0 or less */
        uint32_t silent_ms; /* how long nothing has passed; UINT32_MAX: not known */
};
struct debts {
        struct debt_edge *edges; /* by from, to; each pair once */
        size_t n, size;
        struct rank_debts *ranks;
        bool cut; /* a connection of the run loses what is sent: then who else received last says nothing */
        uint32_t silent_ms; /* the connections of the steps: for how long most of them; 0: not known */
        int64_t margin_ms;
};
#define DEBTS_NULL ((struct debts){ 0 })
void debts_clear(struct debts *d);

/* -ENOMEM. */
int debts_survey(const struct evidence *e, struct debts *ret);
