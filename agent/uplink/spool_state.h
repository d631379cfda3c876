/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Inside of a spool, shared by the spool_*.c files only.
 */
#include "segment.h"
#include "spool.h"

#define SPOOL_SEGMENTS_MAX 4096

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
