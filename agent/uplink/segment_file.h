/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Segment files in a spool's directory: made preallocated, found again, written, read, removed. Nothing here
 * syncs but segment_recover().
 */
#include "segment.h"

#define SEGMENT_NEW_NAME "new.tmp" /* a segment before it has its name: left when a process ended half-way */

/* What is known of a segment in memory. */
struct segment {
        uint64_t first_seq, last_seq; /* last_seq = first_seq - 1: none */
        uint64_t records;             /* readable ones of them */
        uint64_t size, end;           /* bytes of the file; behind the last record, written or not */
        uint32_t salt;
        bool durable; /* the file, its header and its directory entry are on the disk */
};

struct segments {
        struct segment *list; /* malloc'ed; rising first_seq */
        size_t n, size;
};
#define SEGMENTS_MAX 4096
/* Makes sure of room for one more. -ENOSPC: there are SEGMENTS_MAX. */
int segments_reserve(struct segments *s);
/* Adds those that are there. */
int segments_find(int dir_fd, struct segments *s);
/*
 * Scans one of them; the next one begins at `before`, what lies from there on is a copy. *id: of the spool,
 * 0: not known yet, the first readable header tells. Adds what is missing to *damaged, and an unreadable
 * file as one. *ret_clean: it may be continued. -EPROTONOSUPPORT.
 */
int segment_recover(int dir_fd, struct segment *g, uint64_t before, uint64_t *id, uint64_t *damaged,
                    bool *ret_clean);

/*
 * A segment that is written. Two descriptors of separate open files: the kernel reports a write error once
 * to each, so that neither side of a sync can miss it. -1: none.
 */
struct segment_fds {
        int write, sync;
};
#define SEGMENT_FDS_NONE ((struct segment_fds) { -1, -1 })
void segment_fds_close(struct segment_fds *f);
/* Creates a segment under its name, all of its bytes allocated, replacing one of the same name. */
int segment_create(int dir_fd, uint64_t spool_id, uint64_t first_seq, size_t capacity, struct segment *ret,
                   struct segment_fds *ret_fds);
/* Opens an existing one for more. */
int segment_continue(int dir_fd, const struct segment *g, struct segment_fds *ret);
/* segment_record_make() of the segment's last record, which the caller writes; it has made sure of room. */
void segment_put(struct segment *g, uint64_t seq, uint8_t *out, size_t len);
/* Writes such records, the last len bytes in front of g->end. On failure any part of them may be there. */
int segment_write(const struct segment *g, int fd, const uint8_t *data, size_t len);
int segment_remove(int dir_fd, const struct segment *g);

/*
 * Reads the whole file (at most SPOOL_SEGMENT_MAX bytes) into *ret (malloc'ed); pages that the disk cannot
 * read are zeros.
 */
int segment_load(int dir_fd, uint64_t first_seq, uint8_t **ret, size_t *ret_len);
/* Reads exactly len bytes at offset. -EIO on a short read. */
int segment_pread(int fd, void *buf, size_t len, uint64_t offset);

/* Where the next segment_read() goes on. */
struct segment_reader {
        int fd; /* -1: nowhere */
        uint64_t segment, seq, offset;
};
void segment_reader_forget(struct segment_reader *r);
/*
 * The first good record of g from want to last into buf. 1: read; 0: none; -ENOBUFS: there is one, buf is
 * too small; else -errno. What turns out to be unreadable is taken off g->records and added to *damaged,
 * once.
 */
int segment_read(struct segment_reader *r, int dir_fd, struct segment *g, uint64_t want, uint64_t last,
                 void *buf, size_t size, size_t *ret_len, uint64_t *ret_seq, uint64_t *damaged);
