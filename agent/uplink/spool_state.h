/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside of a spool, shared by the spool_*.c files only.
 */
#include "segment.h"
#include "spool.h"

#define SPOOL_SEGMENTS_MAX 4096
#define SPOOL_SETTLED_MAX 8

struct spool_range {
        uint64_t from, to;
};

struct spool_ledger {
        int fd; /* -1: there is no file yet */
        unsigned slot; /* what the next write goes to; the other one is on the disk */
        bool changed, dirty; /* not written; losses in it that are not on the disk */
        bool syncing; /* by spool_ledger_begin(): nothing is written meanwhile */
        uint64_t serial, next_gap;
        struct spool_gap open[_SPOOL_LOSS_MAX], closed[_SPOOL_LOSS_MAX]; /* number of closed 0: none */
};

struct spool {
        int dir_fd; /* holds the lock */
        int cursor_fd;
        uint64_t id;
        struct spool_options options;

        struct segment *segments; /* rising first_seq; the last one is current when fd >= 0 */
        size_t n_segments, size_segments;
        int fd, sync_fd;         /* the current segment, twice (segment_create()) */
        int old_fd, old_sync_fd; /* the one before it while it holds unsynced records */

        uint64_t next_seq, acked, synced;
        uint64_t held; /* spool_hold() */
        struct spool_range settled[SPOOL_SETTLED_MAX]; /* behind acked: rising, not adjoining */
        size_t n_settled;
        struct spool_ledger ledger;
        uint64_t generation; /* of segments given up: results of jobs from before are void */

        /*
         * Records synced + 1 … next_seq - 1 as they are in the file. Those behind written are nowhere else
         * yet, and all belong into the current segment.
         */
        uint8_t *pending;
        size_t pending_len, pending_size, written;

        int read_fd; /* where the next spool_read() goes on */
        uint64_t read_segment, read_seq, read_offset;

        unsigned cursor_slot;
        uint64_t appended, dropped, damaged, torn, given_up;
};

struct spool_cursor {
        uint64_t spool_id, acked;
        uint32_t zero, crc;
};

static inline struct segment *spool_current(struct spool *s) {
        return s->fd >= 0 ? &s->segments[s->n_segments - 1] : NULL;
}

uint32_t spool_cursor_crc(const struct spool_cursor *c);
/* Makes sure that one more segment can be listed. */
int spool_reserve_segment(struct spool *s);
/* Unacknowledged readable records of g. */
uint64_t spool_segment_open_records(const struct spool *s, const struct segment *g);
uint64_t spool_total_bytes(const struct spool *s);
/* Removes acknowledged segments, then the oldest ones until wanted more bytes fit under the limit. */
void spool_trim(struct spool *s, uint64_t wanted);
/*
 * Makes sure of a current segment with room for a record of len; what is pending becomes part of it after a
 * failure.
 */
int spool_make_room(struct spool *s, size_t len);
/* Half a segment: unsynced records never lie in more than two segments, and always fit into a new one. */
static inline size_t spool_pending_limit(const struct spool *s) {
        return (size_t) MIN((uint64_t) SPOOL_PENDING_MAX, s->options.segment_bytes / 2);
}
void spool_forget_reader(struct spool *s);

/* spool_settled.c: what is done with behind acked. */
/* The first number from seq on that is not done with. */
uint64_t spool_next_unsettled(const struct spool *s, uint64_t seq);
/* How many numbers of from … to are done with behind acked. */
uint64_t spool_count_settled(const struct spool *s, uint64_t from, uint64_t to);
/* -ENOSPC: the list is full. */
int spool_add_settled(struct spool *s, uint64_t from, uint64_t to);
/* Everything up to seq is done with, and what adjoins. */
void spool_advance(struct spool *s, uint64_t seq);
/* Counts what is missing of the numbers behind acked and before seq, which are all unsettled ones. */
void spool_count_missing(struct spool *s, uint64_t seq);
void spool_count_loss(struct spool *s, enum spool_loss why, const struct spool_gap *lost);

/* spool_ledger.c */
/* After the segments and the cursor were read. -EPROTONOSUPPORT: a newer version wrote it. */
int spool_ledger_open(struct spool *s);
int spool_ledger_write(struct spool *s);
/* Writes and syncs, in the calling thread. */
int spool_ledger_sync(struct spool *s);
