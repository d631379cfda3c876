/* SPDX-License-Identifier: Apache-2.0 */
#include "libtpu_names.h"

static const struct libtpu_def defs[] = {
#define LIBTPU(...) LIBTPU_ROW(__VA_ARGS__)
#define LIBTPU_ROW(id, kind, name, factor, ours, unit, key0, our0, key1, our1, description)                 \
        [LIBTPU_##id] = { name,          ours,   unit,           description,                               \
                          SAMPLE_##kind, factor, { key0, key1 }, { our0, our1 } },
#include "libtpu_names.def"
#undef LIBTPU
#undef LIBTPU_ROW
};

const struct libtpu_def *libtpu_def(enum libtpu_metric id) {
        return &defs[id];
}

enum libtpu_metric libtpu_find(const char *name) {
        for (enum libtpu_metric id = 0; id < _LIBTPU_METRIC_MAX; id++)
                if (streq(defs[id].name, name))
                        return id;
        return _LIBTPU_METRIC_MAX;
}
