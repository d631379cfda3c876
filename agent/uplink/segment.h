/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The format of a spool's segments, pure: records are made, and a segment's bytes are scanned.
 *
 * File <first_seq as 16 hex digits>.seg: header {u32 magic "TPUS", u16 version, u16 capacity in 64 KiB,
 * u64 spool id, u64 first_seq, u32 salt, u32 crc32c of the 28 bytes before}; then records, 8-byte aligned:
 * {u32 length, u32 crc32c(salt, length, seq, payload), u64 seq, payload}. Little endian. The header keeps
 * this layout in every version, so that a newer version can be distinguished from damage.
 */
#include <assert.h>

#include "base.h"

#define SPOOL_VERSION 1
#define SPOOL_RECORD_MAX (1024 * 1024)
#define SPOOL_UNIT (64 * 1024)               /* segments are whole units */
#define SPOOL_SEGMENT_MIN SPOOL_UNIT
#define SPOOL_SEGMENT_MAX (64 * 1024 * 1024) /* bounds what recovery reads at a time */

/* The most records that fit into a segment: 16 bytes + 1 byte, aligned. */
#define SPOOL_JUMP (SPOOL_SEGMENT_MAX / 24)

#define SEGMENT_MAGIC 0x53555054u /* "TPUS" */
#define SEGMENT_RECORD_MIN 24u    /* 16 bytes of header and at least one of payload, aligned */

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

/* Bytes that a record with this payload takes. */
static inline size_t segment_record_size(size_t len) {
        return (sizeof(struct segment_record) + len + 7) & ~(size_t) 7;
}

uint32_t segment_header_crc(const struct segment_header *h);
/* Before the payload: crc32c() goes on with it. */
uint32_t segment_record_crc_start(uint32_t salt, const struct segment_record *r);
uint32_t segment_record_crc(uint32_t salt, const struct segment_record *r, const void *payload);
/*
 * Makes a record of the len bytes that lie at out + sizeof(struct segment_record): header before, zeros
 * behind, segment_record_size(len) bytes in all.
 */
void segment_record_make(uint32_t salt, uint64_t seq, uint8_t *out, size_t len);

/*
 * The recovery scan over one segment's bytes: calls record (may be NULL) for each good one, in rising order
 * of seq. Returns 0; -EBADMSG when the header is not ours; -EPROTONOSUPPORT when it is of a newer version.
 */
struct spool_scan {
        uint64_t spool_id, first_seq, next_seq; /* next_seq: behind the last good record */
        uint32_t salt;
        size_t capacity;        /* what was preallocated */
        uint64_t good, damaged; /* damaged: missing between good ones */
        size_t end;             /* offset behind the last good record */
        bool clean;             /* nothing but zeros behind end */
};
int spool_scan(const void *data, size_t len,
               void (*record)(void *userdata, uint64_t seq, size_t offset, size_t payload_len),
               void *userdata, struct spool_scan *ret);
