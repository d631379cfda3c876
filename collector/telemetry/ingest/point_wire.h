/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A metric and its points, read off the wire: building messages of them costs a quarter more of all that is
 * done with a point, and of a series that is known nothing but time and value is wanted. Attributes are not
 * looked into here: their bytes name the series. Inside the room only. Pure.
 */
#include "unpack.h"

#define METRIC_TEXT_MAX 1024 /* a name or unit is cut there */
#define POINT_KEY_MAX   1024

/* A series as its sender names it, as bytes: cheap to make, and different series have different ones. */
struct point_key {
        uint8_t bytes[POINT_KEY_MAX];
        size_t len;
        bool full; /* it does not fit: it names nothing */
};
void point_key_begin(struct point_key *k, const char *service, const char *name);

enum metric_kind { METRIC_OTHER, METRIC_NUMBERS, METRIC_HISTOGRAM }; /* numbers: of a gauge or sum */
struct metric_parts {
        char name[METRIC_TEXT_MAX], unit[METRIC_TEXT_MAX]; /* as they came */
        enum metric_kind kind;
        struct wire points; /* the content of the gauge, sum or histogram */
};
/* 0; -EBADMSG: not well-formed, or it has points of two kinds. */
int metric_parse(const uint8_t *data, size_t len, struct metric_parts *ret);
/* The next point, as wire_next(). */
int metric_next_point(struct metric_parts *m, struct wire_field *ret);

struct point {
        uint64_t time_nsec; /* 0: not given */
        bool unrecorded;    /* flag: no value was recorded */
        bool is_set, is_int; /* of a number; is_set of a histogram: its sum is given */
        int64_t i;
        double d;
        uint64_t count; /* of a histogram, whose sum is d */
};
/* Adds the attributes to key, which may become full. -EBADMSG. */
int point_parse(enum metric_kind kind, const struct wire_field *point, struct point_key *key,
                struct point *ret);
/* The next attribute of a point that was parsed; a KeyValue. As wire_next(). */
int point_next_attribute(enum metric_kind kind, struct wire *at, struct wire_field *ret);
