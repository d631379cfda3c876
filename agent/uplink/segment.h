/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One segment file of a spool (layout: spool.h): create preallocated, write, load. Nothing here syncs.
 */
#include <assert.h>

#include "base.h"
#include "spool.h"

#define SEGMENT_MAGIC 0x53555054u /* "TPUS" */
#define SEGMENT_RECORD_MIN 24u    /* 16 bytes of header and at least one of payload, aligned */
#define SEGMENT_NAME_MAX 32

struct segment_header {
        uint32_t magic;
        uint16_t version, capacity;
        uint64_t spool_id, first_seq;
        uint32_t salt, crc;
};
struct segment_record {
        uint32_t length, crc;
        uint64_t seq;
};
static_assert(sizeof(struct segment_header) == 32, "written as it is");
static_assert(sizeof(struct segment_record) == 16, "written as it is");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files are little endian");

/* What is known of a segment in memory. */
struct segment {
        uint64_t first_seq, last_seq; /* last_seq = first_seq - 1: none */
        uint64_t records;             /* readable ones of them */
        uint64_t size, end;           /* bytes of the file; behind the last record, written or not */
        uint32_t salt;
        bool durable; /* the file, its header and its directory entry are on the disk */
};

/* Bytes that a record with this payload takes. */
static inline size_t segment_record_size(size_t len) {
        return (sizeof(struct segment_record) + len + 7) & ~(size_t) 7;
}

uint32_t segment_header_crc(const struct segment_header *h);
/* Before the payload. */
uint32_t segment_record_crc_start(uint32_t salt, const struct segment_record *r);
uint32_t segment_record_crc(uint32_t salt, const struct segment_record *r, const void *payload);
void segment_name(uint64_t first_seq, char buf[static SEGMENT_NAME_MAX]);
/* Opens an existing segment; flags as for open(2), O_CLOEXEC is added. */
int segment_open(int dir_fd, uint64_t first_seq, int flags);

/*
 * Creates a segment under its name, all of its bytes allocated, replacing one of the same name. Two
 * descriptors of separate open files: the kernel reports a write error once to each, so that neither side
 * of a sync can miss it.
 */
int segment_create(int dir_fd, uint64_t spool_id, uint64_t first_seq, size_t capacity, struct segment *ret,
                   int *ret_fd, int *ret_sync_fd);
/*
 * Makes a record of the len bytes that lie at out + sizeof(struct segment_record): header before, zeros
 * behind, segment_record_size(len) bytes in all; and counts it as the segment's last one. The caller has
 * made sure that it fits, and writes it.
 */
void segment_put(struct segment *g, uint64_t seq, uint8_t *out, size_t len);
/* Writes such records, the last len bytes in front of g->end. On failure any part of them may be there. */
int segment_write(const struct segment *g, int fd, const uint8_t *data, size_t len);
/*
 * Reads the whole file (at most SPOOL_SEGMENT_MAX bytes) into *ret (malloc'ed); pages that the disk cannot
 * read are zeros.
 */
int segment_load(int dir_fd, uint64_t first_seq, uint8_t **ret, size_t *ret_len);
/* Reads exactly len bytes at offset. -EIO on a short read. */
int segment_pread(int fd, void *buf, size_t len, uint64_t offset);
