/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Captures out of their bytes (proto/capture.proto), one behind the other as a file or an answer may hold
 * them. The bytes are hostile input: time and memory grow with their length only, and every length and
 * number is checked.
 */
#include "host_capture.h"
#include "unpack.h"

#define CAPTURE_VERSION    1u
#define CAPTURE_STREAM_MAX (4u * 1024 * 1024) /* bytes of one capture, when it is not packed */
#define CAPTURE_APPENDED_MAX                                                                                \
        (128u * 1024) /* of these: kept free for what tpu-hostd writes behind tpu-stack's */
#define CAPTURE_PACKED_MAX (900 * 1024)       /* as gzip: what goes in one frame between our daemons */
#define CAPTURE_WHY_MAX    160u

enum capture_detail {
        CAPTURE_DIAGNOSED, /* what makes stacks of several hosts alike: module names without their folders,
                              no offsets, no frames of the interpreter itself; and no processes without
                              Python beside those with it */
        CAPTURE_SHOWN,     /* everything, as it was written */
};

struct capture_numbers { /* what the stream's numbers are in the table */
        uint32_t *items;
        size_t n, size;
};

struct capture_reader {
        enum capture_detail detail;
        const uint8_t *data; /* that was not looked at yet: gzip members, or parts */
        size_t len;
        uint8_t *member; /* inflated; NULL: none */
        struct wire parts;
        size_t part; /* which one of the capture is read, from 1 */
        size_t bytes;

        struct host_capture *c;
        struct stack_table *t;
        struct capture_numbers strings, frames, stacks;
        uint8_t *kinds; /* of each frame: whether it may be left out */
        size_t kinds_size;
        char *why;
};

/* data is borrowed. */
void capture_reader_init(struct capture_reader *r, const void *data, size_t len, enum capture_detail detail);
void capture_reader_clear(struct capture_reader *r);
#define _cleanup_capture_reader_ _cleanup_(capture_reader_clear)

/*
 * The next capture into c, which is initialised here and cleared by the caller, also on failure; its strings
 * and stacks go into t, which may hold others. 1; 0: there are no more; -EPROTO (why: which part and field),
 * -EPROTONOSUPPORT (a later version), -E2BIG, -ENOMEM: nothing can be read behind that.
 */
int capture_reader_next(struct capture_reader *r, struct host_capture *c, struct stack_table *t,
                        char why[static CAPTURE_WHY_MAX]);
/* One capture and nothing else: 0, or as above. */
int capture_read(const void *data, size_t len, enum capture_detail detail, struct host_capture *c,
                 struct stack_table *t, char why[static CAPTURE_WHY_MAX]);
