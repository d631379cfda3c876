/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who waits for whom over all hosts, and where that leads. Every stall ends at somebody who waits for nobody
 * of the run: each rank sends one share of blame along its waits, and where the shares come to rest is the
 * culprit. Nodes are ranks, and hosts without any (silent, or whose process has ended).
 *
 * A thread that is blocked for one rank alone passes on all of its share. Else it goes, by their weights,
 * to those of whom the sockets say that they owe; and what a rank only shows by waiting as most do goes to
 * whoever waits least. A wait over a connection that loses what is sent ends at the path (paths.h).
 *
 * Ranks in a circle of certain waits: who is behind ends it (circle.h); where nobody tells, all of them are
 * its end.
 */
#include "chain.h"
#include "circle.h"

struct graph_node {
        double end;     /* that what it waits for itself is the end: 0 to 1 */
        double leaves;  /* how much of a share it passes on */
        double share;   /* of the blame of all, 0 to 1 */
        uint32_t root;  /* where that leads: itself where it leads nowhere */
        bool waits;     /* for other ranks */
        bool there;     /* false: a host that has ranks */
        bool in_circle; /* nobody tells who of these is behind */
        enum circle_by behind; /* it ends a circle */
};
struct wait_graph {
        struct wait_chain *chains; /* of each rank */
        struct debts debts;
        struct graph_node *nodes; /* n_ranks, then n_hosts */
        uint32_t *next;           /* of each node the one for which it waits alone; STACK_NONE */
        size_t n, n_there;
        size_t n_waiting; /* ranks that wait for other ranks */
        double most;      /* the greatest share */
};
#define WAIT_GRAPH_NULL ((struct wait_graph){ 0 })
void wait_graph_clear(struct wait_graph *g);

/* -ENOMEM. */
int wait_graph_make(struct wait_graph *g, const struct evidence *e);
