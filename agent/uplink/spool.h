/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A durable, bounded queue of records in a directory of preallocated segment files; one spool per class,
 * so that metrics never push out events. A record is durable when a sync begun after its append has ended
 * with success: then it survives SIGKILL and a power cut. Before that it may be in memory only, because what
 * is appended between two syncs is written by one call: a call for each record cost more than the disk did.
 * Reading and acknowledging is by sequence number, from 1. Torn tails are cut on open; a bad record in the
 * middle is skipped and counted. Past the byte limit the oldest segment goes first and its records are
 * counted. What is lost for whatever reason is kept account of (ledger.h), exactly, through kills and power
 * cuts, until it was reported.
 *
 * Invariant: only durable records can be read (and so be sent). A sequence number that anyone may have
 * seen (acknowledged or sent) therefore names a record that is on the disk, and never gets another
 * content:
 *  - a clean last segment is continued: its unsynced records, if a power cut took them, were never seen by
 *    anyone;
 *  - a last segment that does not end clean (garbage behind the last good record, cut short, bad header)
 *    is left alone, and the next sequence jumps over every number that could have been in it (SPOOL_JUMP).
 *    So numbers have gaps there, which say nothing about lost records; losses are in the stats;
 *  - an older segment is removed only while a younger one is known to be on the disk. What remains: a disk
 *    that reports a sync as done and later gives zeros back for that part of the newest segment.
 *
 * After a failed write nobody knows what is in the file, and after a failed fdatasync the kernel has marked
 * the pages clean, so that a second try would lie: the segment is given up and its unsynced records, kept in
 * memory until they are durable, are written to a new one, under their numbers. On open a segment counts up
 * to where the next one begins, so that a copy in a given-up segment is never read twice.
 *
 * The id of a spool is born with its directory; each segment (segment.h) and the ledger (ledger.h) carry it.
 *
 * The object belongs to one thread. The directory is locked (flock): two daemons never share a spool.
 */
#include "ledger.h"
#include "segment.h"

#define SPOOL_PENDING_MAX (256 * 1024) /* unsynced bytes kept in memory; more forces a sync in the caller */

struct spool_options {
        uint64_t max_bytes;     /* of all segments; at least 2 * segment_bytes */
        uint64_t segment_bytes; /* preallocated size of one segment, SPOOL_SEGMENT_MIN to _MAX; rounded down
                                   to units */
        uint64_t (*count)(const void *data, size_t len); /* items of a record, for gaps; may be NULL */
};

struct spool_stats {
        uint64_t records;             /* kept and not acknowledged */
        uint64_t bytes;               /* of all segment files */
        uint64_t appended;            /* since open */
        uint64_t dropped_bytes_limit; /* records that the byte limit forced out, since open */
        uint64_t
                damaged; /* records skipped because of a bad checksum, and unreadable segments, since open */
        uint64_t torn;   /* unclean ends that were cut on open (0 or 1): what stood there was not read */
        uint64_t given_up;            /* segments left after a failed sync, since open */
        uint64_t first_seq, next_seq; /* oldest kept unacknowledged; what the next append gets */
        uint64_t synced_seq;          /* every record below or equal is durable */
};

struct spool;

/*
 * Opens or makes the spool in directory path (made 0700 if missing, its parent must exist), recovers it
 * and syncs what it found; blocks for as long as reading all segments takes. -EBUSY: another process has
 * it, and still after 2 s; -EPROTONOSUPPORT: a segment was written by a newer version (nothing is touched);
 * -EINVAL: options; else not usable (-EACCES, -EROFS, -ENOSPC, -EIO …).
 */
int spool_open(const char *path, const struct spool_options *o, struct spool **ret);
/* Does not sync. */
struct spool *spool_free(struct spool *s);
DEFINE_CLEANUP(struct spool *, spool_free)

uint64_t spool_id(const struct spool *s);
/*
 * Appends one record; its sequence in ret_seq. Not durable before the next sync. -EINVAL: empty; -E2BIG:
 * longer than SPOOL_RECORD_MAX or than a segment holds; -ENOSPC, -EROFS, -EIO, -ENOMEM: nothing was
 * appended. A disk that fails is noticed when a segment is full, at SPOOL_PENDING_MAX, and by the sync.
 */
int spool_append(struct spool *s, const void *data, size_t len, uint64_t *ret_seq);
/*
 * After an error: makes sure of room for the next records, so far as that can be done before they are known.
 * 0: appends may be hoped for again.
 */
int spool_prepare(struct spool *s);
/* Makes durable what was appended, in the calling thread. On failure see spool_sync_end(). */
int spool_sync(struct spool *s);

/*
 * The same in two halves, so that another thread does the waiting: spool_sync_begin() writes what is in
 * memory, gives descriptors of its own to fdatasync in this order (the caller closes them) and returns 1, or
 * 0 when there is nothing to do, or -errno. spool_sync_end() takes the result (0 or -errno) back. Returns 0
 * when everything up to task->seq is durable (or the task was overtaken by a failure that is already dealt
 * with); else the result, and the records are kept and wait for the next sync.
 */
struct spool_sync_task {
        int fds[3]; /* old segment, current segment, directory; without gaps */
        size_t n_fds;
        bool directory; /* the last one is: fsync, because fdatasync may leave a new name out */
        uint64_t seq, segment, generation;
};
int spool_sync_begin(struct spool *s, struct spool_sync_task *ret);
int spool_sync_end(struct spool *s, const struct spool_sync_task *task, int result);

/*
 * Copies the oldest durable, unacknowledged record with seq > after into buf. 1: one read (ret_len,
 * ret_seq); 0: none; -ENOBUFS: buf is too small (SPOOL_RECORD_MAX always suffices); else -errno.
 */
int spool_read(struct spool *s, uint64_t after, void *buf, size_t size, size_t *ret_len, uint64_t *ret_seq);
/*
 * Record seq, the oldest that spool_read(s, 0, …) gave, is done with: what is missing before it is damage.
 * lost[] (NULL: nothing; an array by enum spool_loss) is what was lost of it, records and items.
 */
void spool_settle(struct spool *s, uint64_t seq, const struct spool_gap *lost);
/* The same of a record before older ones. -ENOSPC: not possible now, there are too many such places. */
int spool_settle_ahead(struct spool *s, uint64_t seq, const struct spool_gap *lost);
/* Whether seq is durable and not done with, older ones are there, and it may go before them. */
bool spool_may_settle_ahead(const struct spool *s, uint64_t seq);
/*
 * Record seq may have been delivered and nobody knows yet: the byte limit spares it. 0: none. spool_held():
 * after open, what the process before last said, if that was saved with the ledger.
 */
void spool_hold(struct spool *s, uint64_t seq);
uint64_t spool_held(const struct spool *s);
/* Another byte limit (at least two segments), from now on. */
void spool_set_limit(struct spool *s, uint64_t max_bytes);
/* The oldest segment goes, though there is room under the limit. False: there is none that may. */
bool spool_shed(struct spool *s);

/* What was lost and not reported yet, and how far was acknowledged (ledger_save()). */
struct ledger *spool_ledger(struct spool *s);
void spool_get_stats(const struct spool *s, struct spool_stats *ret);
