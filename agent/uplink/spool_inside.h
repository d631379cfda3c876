/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What spool.c and spool_kept.c share; as one file they would be too long. spool.c makes a spool, appends
 * and syncs; spool_kept.c, which knows nothing of that, reads what is kept, settles it, and removes the
 * oldest.
 */
#include "segment_file.h"
#include "spool.h"

struct spool {
        int dir_fd; /* holds the lock */
        struct spool_options options;
        struct ledger ledger; /* and the id */
        struct segments segments;
        struct segment_reader reader;
        uint64_t next_seq, synced;

        struct segment_fds current; /* of the last segment, while it is written */
        struct segment_fds old;     /* of the one before it while it holds unsynced records */
        uint64_t generation;        /* of segments given up: results of tasks from before are void */
        /*
         * Records synced + 1 … next_seq - 1 as they are in the file. Those behind written are nowhere else
         * yet, and all belong into the current segment.
         */
        uint8_t *pending;
        size_t pending_len, pending_size, written;

        uint64_t appended, dropped, damaged, torn, given_up;
};

/* spool_kept.c: removes acknowledged segments, then the oldest ones until so many bytes more are allowed. */
void spool_trim(struct spool *s, uint64_t wanted);
