/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who on this host has an end of what threads wait for: pipes, FIFOs and eventfds, by a look at the
 * descriptors of all processes. It ends after ENDS_USEC, and that is said.
 */
#include "waits.h"

#define ENDS_USEC       USEC_PER_SEC /* a host has some thousand descriptors: that takes milliseconds */
#define ENDS_WANTED_MAX 4096u
#define ENDS_MAX        4096u

struct end_wanted {
        uint8_t kind; /* WAIT_PIPE, WAIT_EVENTFD */
        uint64_t space, number;
        char name[64]; /* of a FIFO, without its directories, cut */
};
struct end_found {
        struct captured_end e;             /* but for its command, */
        char command[PROCESS_COMMAND_MAX]; /* which is here */
};
struct ends {
        struct end_wanted *wanted;
        struct end_found *items;
        size_t n_wanted, wanted_size, n, size;
        bool cut; /* there may be more */
};
void ends_clear(struct ends *e);

/* What the threads of a process wait for. -ENOMEM. */
int ends_want(struct ends *e, const struct waits *w);
/* Once. -ENOMEM, or -errno of listing /proc. */
int ends_search(const struct host *h, struct ends *e);
