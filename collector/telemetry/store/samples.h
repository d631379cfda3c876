/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How points lie in one row of the database: a run of entries, each "varint of (zigzag of the step from the
 * last series) << 2 | kind" and then a zigzag varint (whole number), 8 bytes little-endian (IEEE double), or
 * a new distance in milliseconds from the row's time. About 6 bytes a point. Pure; what is read may be
 * damaged. Inside the room only.
 */
#include "base.h"

struct stored_sample {
        int64_t series; /* 1 … */
        int64_t ms;     /* time, milliseconds since 1970 */
        bool is_int;
        int64_t i;
        double d; /* also set when is_int */
};

struct samples_out {
        uint8_t *data;
        size_t len, size;
        int64_t base; /* the row's time, milliseconds since 1970 */
        int64_t series, ms;
};

/* Begins a row; keeps the memory. */
void samples_begin(struct samples_out *o, int64_t base);
int samples_put(struct samples_out *o, const struct stored_sample *s);
void samples_clear(struct samples_out *o);
#define _cleanup_samples_ _cleanup_(samples_clear)

struct samples_in {
        const uint8_t *next, *end;
        int64_t series, ms, base;
};
struct samples_in samples_read(const void *data, size_t len, int64_t base);
/* 1: one; 0: the end; -EBADMSG: damaged. */
int samples_next(struct samples_in *in, struct stored_sample *ret);
