/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The usual metric, read off the wire: a gauge or sum of number points. Building messages of it costs twice
 * as much as all else that is done with a point, and of a series that is known nothing but time and value is
 * wanted. Attributes are not looked into: their bytes name the series. Whatever is not plain (another kind,
 * an exemplar, two gauges, damage) is left to protobuf-c and its checks. Inside the room only. Pure.
 */
#include "point_key.h"
#include "unpack_wire.h"

#define METRIC_TEXT_MAX 1024 /* a name or unit that is longer is not plain */

struct metric_parts {
        const uint8_t *name, *unit; /* not NUL-terminated, not checked; NULL: not given */
        size_t name_len, unit_len;  /* below METRIC_TEXT_MAX */
        struct wire points;         /* the content of the gauge or sum */
        bool is_sum;
};
/* False: not plain. */
bool metric_parse(const uint8_t *data, size_t len, struct metric_parts *ret);

/* The next number point, otherwise as wire_next(). */
int metric_next_point(struct metric_parts *m, struct wire_field *ret);

struct number {
        uint64_t time_nsec; /* 0: not given */
        bool unrecorded;    /* flag: no value was recorded */
        bool is_set, is_int;
        int64_t i;
        double d;
};
/* Adds the attributes to key, which may become full. False: not plain; the key is spoilt then. */
bool number_parse(const uint8_t *data, size_t len, struct point_key *key, struct number *ret);
