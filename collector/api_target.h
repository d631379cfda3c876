/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a path of the registry's part of the API names. Pure. */
#include "base.h"

enum what {
        WHAT_NOTHING,
        WHAT_RUNS,
        WHAT_RUN,
        WHAT_LOGS,
        WHAT_SLICE,
        WHAT_SLOT,
        WHAT_CAPTURE,
        WHAT_DIAGNOSIS,
        WHAT_CAPTURES,
        WHAT_EPISODES,
        WHAT_ORDER,
        WHAT_ORDERS,
        WHAT_MODE,
};

struct target {
        enum what what;
        char name[64], kind[8];
        unsigned worker;
};

/* WHAT_NOTHING: none of these. */
struct target target_find(const char *path);
