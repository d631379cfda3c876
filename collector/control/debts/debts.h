/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who holds a stalled run up, from what the sockets of its hosts say of each other alone (probes/net,
 * flow_debts.h): a graph of who waits for whom. Pure; the same in whatever order hosts and peers come.
 *
 * A host that holds the run up has all that it needs and gives nothing. So it owes everybody, and waits for
 * nobody. A host that owes some and not all is not the one: it waits for one of those that it does not owe
 * (the keeper of a parameter server has the data of healthy workers, and has not come to them). Where one
 * alone can be that, the wait is inferred, and the verdict is LIKELY at most. Then the graph has one sink,
 * or nobody is named.
 *
 * Where data is retransmitted and not acknowledged, the end that all such paths have in common is named.
 */
#include "base.h"

#define DEBTS_OUTSIDE UINT32_MAX /* a peer that is no host of the run */
#define DEBTS_HOSTS_MAX 65536u

enum debt_turn { DEBT_OPEN, DEBT_OWES, DEBT_WAITS, DEBT_SENDS, DEBT_BAD, _DEBT_TURN_MAX };
/* "open", "owes", "waits", "sends", "bad"; -EINVAL. */
int debt_turn_parse(const char *name, enum debt_turn *ret);

struct debt {
        uint32_t peer; /* its number among the hosts, or DEBTS_OUTSIDE */
        enum debt_turn turn;
        int64_t sent, received;  /* ms ago; -1: not in the steps */
        uint64_t unread, unsent; /* bytes */
};
struct debts_host {
        struct debt *debts;
        size_t n;
        bool said; /* else it is only known */
};

enum debts_says {
        DEBTS_NOBODY,
        DEBTS_LIKELY, /* nothing contradicts */
        DEBTS_CLEAR,  /* and the host itself has what it needs */
};
enum debts_why {
        DEBTS_NOTHING,  /* nobody waits for anybody, as far as is seen */
        DEBTS_OWES,     /* it owes all, and waits for nobody */
        DEBTS_WANTED,   /* waits lead to it */
        DEBTS_INFERRED, /* waits lead to it, one of them because no other can be meant */
        DEBTS_SILENT,   /* waits lead to it, and it says nothing */
        DEBTS_PATH,     /* all bad paths end there */
        DEBTS_PAIR,     /* one path is bad: its two ends */
        DEBTS_SEVERAL,  /* nobody: there are several */
        DEBTS_ROUND,    /* nobody: each waits for another */
        DEBTS_ONE_OF,   /* nobody: one waits for one of several */
        DEBTS_CHAIN,    /* nobody: each waits for the next one, up to the end of a pipeline */
};
struct debts_verdict {
        enum debts_says says;
        enum debts_why why;
        uint32_t host, other; /* other: the second candidate, the other end of a pair, or who waits for it */
        size_t waiting;       /* hosts whose waits lead straight to host */
        size_t said;          /* hosts that say something */
        uint64_t unread;      /* at host */
        uint32_t unread_of;   /* the peer that has most of it; DEBTS_OUTSIDE: none */
        int64_t owes;         /* ms from its last sending to its last receiving; -1: not seen */
};

/* -EINVAL (n above DEBTS_HOSTS_MAX, a peer that is no number), -ENOMEM. */
int debts_judge(const struct debts_host *hosts, size_t n, struct debts_verdict *ret);
