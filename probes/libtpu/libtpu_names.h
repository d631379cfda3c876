/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The metrics of libtpu by id, and what becomes of each: libtpu_names.def is the one list. */
#include "probe.h"

#define LIBTPU_KEYS 2 /* attributes of a point beside whose it is */

enum libtpu_metric {
#define LIBTPU(...) LIBTPU_ROW(__VA_ARGS__)
#define LIBTPU_ROW(id, kind, name, factor, ours, unit, key0, our0, key1, our1, description) LIBTPU_##id,
#include "libtpu_names.def"
#undef LIBTPU
#undef LIBTPU_ROW
        _LIBTPU_METRIC_MAX,
};

struct libtpu_def {
        const char *name; /* as libtpu calls it */
        const char *ours, *unit, *description;
        enum sample_kind kind;
        double factor;                 /* from libtpu's unit to ours */
        const char *keys[LIBTPU_KEYS]; /* as libtpu calls them; "": the number of the device; NULL: none */
        const char *our_keys[LIBTPU_KEYS];
};
const struct libtpu_def *libtpu_def(enum libtpu_metric id);
/* _LIBTPU_METRIC_MAX: not one of those that are taken. */
enum libtpu_metric libtpu_find(const char *name);
