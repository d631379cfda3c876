/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Work in steps of which none may take all the rest with it: a step that hangs in a system call, runs on,
 * takes too much memory or crashes is given up, and the work goes on behind it with all that was done
 * before.
 *
 * Three processes. The caller becomes the one that watches. The second does the work. Before each step it
 * leaves a copy of itself behind, which sleeps. When the step ends well, the copy is ended. When it does
 * not, the worker is killed and the copy goes on from before the step, knowing why. What they print goes
 * through the one that watches: a worker that sleeps where no signal reaches it is left alone, and nobody
 * waits for it.
 */
#include <sys/types.h>

#include "base.h"

enum guard_reason {
        GUARD_GO = 0, /* do the step */
        GUARD_SLOW,   /* it did not end in its time */
        GUARD_CPU,    /* it computed too long */
        GUARD_MEMORY, /* it wanted more memory than there is for it */
        GUARD_CRASHED,
};

struct guard {
        int fd;                        /* to the one that watches; -1: nobody does, steps are just done */
        int signals, ended;            /* ended: to the copy */
        pid_t watcher, maker, standby; /* standby: the copy that sleeps; maker: who made us as one */
};
#define GUARD_NULL ((struct guard){ .fd = -1, .signals = -1, .ended = -1 })

#define GUARD_DATA_MAX (200u * 1024 * 1024) /* bytes of memory that the worker may have */

/*
 * Does work in another process that is watched, and returns its exit code; 3 when it could not be brought to
 * an end, after a message. work flushes what it prints before each step.
 */
int guard_run(int (*work)(struct guard *g, void *userdata), void *userdata);

/*
 * Begins a step that may take so long. GUARD_GO: do it, then guard_end(). Else this is the copy, and the
 * step was given up for that reason. Without memory for a copy the step is not watched.
 */
enum guard_reason guard_begin(struct guard *g, usec_t timeout);
void guard_end(struct guard *g);
/* The step cannot be done for want of memory: the copy goes on. Returns only where there is none. */
void guard_give_up(struct guard *g);

/* "it did not answer in time". */
const char *guard_words(enum guard_reason reason);
