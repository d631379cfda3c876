/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What one look at the host goes through all parts of this room with. */
#include "probe.h"
#include "source.h"

struct look {
        const struct host *host;
        struct sink *sink;
        struct lines *lines; /* one buffer for all files that are read by lines */
        usec_t now;          /* boot clock */
};
