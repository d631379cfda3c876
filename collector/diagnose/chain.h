/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One rank's waits, followed from its thread to where they end: thread for thread over locks, pipes, sockets
 * and children of its host, up to one that waits for nobody here. That is another rank of the run, a machine
 * outside, a circle of locks, or a thread that is held up by itself: it runs, sleeps, is stopped, waits for
 * a file system.
 *
 * Where the kernel does not say who holds something, structure decides: a thread of the process that stands
 * elsewhere than its like on the other ranks. Where there is none, a rank that stands as most do waits for
 * the others; and one that stands elsewhere, but in the library code in which most wait for the others, or
 * in a library that watches connections to them, and none of whose threads is why, waits for an exchange in
 * which they take no part.
 */
#include "evidence.h"

#define CHAIN_STEPS_MAX 8u
#define CHAIN_RANKS_MAX 16u

enum chain_end {
        END_UNKNOWN, /* nobody says who holds what it waits for */
        END_HERE,    /* by what it is itself: kind */
        END_CIRCLE,  /* of threads of this host */
        END_OUTSIDE, /* a machine that is no host of the run */
        END_RANKS,   /* another rank, or several */
        END_OTHERS,  /* as most: for others, and nothing says for whom */
        END_PATH,    /* another rank, over a connection that loses what is sent: neither of them is why */
};

struct chain_step {
        const struct captured_process *process;
        const struct captured_thread *thread; /* NULL: none of it is known */
        const struct captured_wait *wait;     /* NULL: it has none */
        bool guessed;                         /* the next one is held for its end by structure alone */
};
struct wait_chain {
        struct chain_step steps[CHAIN_STEPS_MAX]; /* from the rank's thread on; at least one */
        uint32_t n;
        enum chain_end end;
        uint8_t kind;      /* of the last step: enum stall_kind */
        bool odd;          /* it ends in another process, at a thread that stands elsewhere than its like */
        bool solid;        /* at each step the kernel or the memory says who holds it */
        bool certain;      /* END_RANKS: one wait, for one rank */
        bool joins;        /* it waits in the library code in which most wait, called from elsewhere */
        bool exchanges;    /* it waits in a library of which a thread watches connections to other ranks */
        bool deserted;     /* nobody has the other end of the pipe that it reads */
        bool stuck, moved; /* the last thread, in the two captures */
        double weight;     /* that this end holds the rank up; 0 of END_RANKS, END_OTHERS, END_PATH */
        uint32_t outside;  /* string: the address, file system or command where it ends; 0: none */
        uint32_t ranks[CHAIN_RANKS_MAX]; /* nodes: ranks, and n_ranks + host for hosts that have none */
        uint32_t n_ranks;
};

/* Of the thread of a rank that is looked at. Each costs a bounded number of steps. */
void chain_follow(const struct evidence *e, uint32_t rank, struct wait_chain *ret);
/* Of one that watches several, and is known to hold itself up, for it has what it needs and sends nothing:
 * its chain leads to a thread that stands elsewhere than its like, if there is one. */
void chain_look_within(const struct evidence *e, uint32_t rank, struct wait_chain *chain);
/* The node of the other end; STACK_NONE: it is outside. */
uint32_t chain_node(const struct evidence *e, const struct peer_end *end);
