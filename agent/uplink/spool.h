/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A durable, bounded queue of records in a directory of preallocated segment files; one spool per class, so that metrics never push
 * out events. A record is durable when spool_sync() returned 0 after its append; appended records survive SIGKILL, synced ones a
 * power cut. Reading and acknowledging is by sequence number, from 1, without gaps within what is kept. Torn tails are cut on open; a bad
 * record in the middle is skipped and counted. Past the byte limit the oldest segment goes first and its records are counted.
 *
 * File <first_seq as 16 hex digits>.seg: header {u32 magic "TPUS", u16 version, u16 0, u64 spool id, u64 first_seq, u32 salt, u32 crc32c}; then
 * records, 8-byte aligned: {u32 length, u32 crc32c(salt, length, seq, payload), u64 seq, payload}. Little endian. Version SPOOL_VERSION.
 * The spool id is random, born with the directory (file "id").
 *
 * The object belongs to one thread, except spool_sync_fd(): see there.
 */
#include "base.h"

#define SPOOL_VERSION 1
#define SPOOL_RECORD_MAX (1024 * 1024)
#define SPOOL_SEGMENT_MIN (64 * 1024)

struct spool_options {
        uint64_t max_bytes;     /* of all segments; at least 2 * segment_bytes */
        uint64_t segment_bytes; /* preallocated size of one segment */
};

struct spool_stats {
        uint64_t records, bytes;       /* kept and not acknowledged */
        uint64_t appended;             /* since open */
        uint64_t dropped_bytes_limit;  /* records that the byte limit forced out, since open */
        uint64_t damaged;              /* records skipped because of a bad checksum or header, since open */
        uint64_t first_seq, next_seq;  /* oldest kept unacknowledged; what the next append gets */
        uint64_t synced_seq;           /* every record below or equal is durable */
};

struct spool;

/* Opens or makes the spool in directory path (made 0700 if missing) and recovers it. -errno: not usable (permission, read-only, …). */
int spool_open(const char *path, const struct spool_options *o, struct spool **ret);
struct spool *spool_free(struct spool *s);
DEFINE_CLEANUP(struct spool *, spool_free)

uint64_t spool_id(const struct spool *s);
/* Appends one record; its sequence in ret_seq. Not durable before the next sync. -E2BIG, -ENOSPC, -EROFS, -EIO: nothing was appended. */
int spool_append(struct spool *s, const void *data, size_t len, uint64_t *ret_seq);
/* fdatasync of what was appended, in the calling thread. On -EIO the segment is given up and its unsynced records are written anew to another. */
int spool_sync(struct spool *s);

/*
 * The same in two halves for the sync thread: spool_sync_begin() gives a duplicated descriptor to fdatasync (caller closes) and the sequence that
 * this will make durable (0: nothing to do); spool_sync_end() takes the result back in the owning thread.
 */
int spool_sync_begin(struct spool *s, int *ret_fd, uint64_t *ret_seq);
int spool_sync_end(struct spool *s, uint64_t seq, int result);

/* Copies the oldest unacknowledged record with seq > after into buf. 1: one read (ret_len, ret_seq); 0: none; -ENOBUFS: buf too small. */
int spool_read(struct spool *s, uint64_t after, void *buf, size_t size, size_t *ret_len, uint64_t *ret_seq);
/* Everything up to seq was delivered: may be forgotten. The cursor is written by spool_save_cursor(), at most as often as the caller likes. */
void spool_ack(struct spool *s, uint64_t seq);
int spool_save_cursor(struct spool *s);
void spool_get_stats(const struct spool *s, struct spool_stats *ret);

/*
 * Pure recovery scan over one segment's bytes: calls record for each good one. Returns 0, or -EBADMSG when the header is not ours. *ret_end is where a
 * torn tail begins. For recovery and fuzzing.
 */
struct spool_scan {
        uint64_t spool_id, first_seq, next_seq;
        uint64_t good, damaged;
        size_t end; /* offset behind the last good record */
};
int spool_scan(const void *data, size_t len, void (*record)(void *userdata, uint64_t seq, size_t offset, size_t payload_len),
               void *userdata, struct spool_scan *ret);
