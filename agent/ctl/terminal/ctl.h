/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The verbs of tpuctl. Each gets the words of its own command line (argv[0] is the verb) and what stood
 * before it, prints its answer on standard output and complaints on standard error, and returns the exit
 * code: that of a check (0, 1, 2, 3) where it judges something, 3 where somebody who should answer does not,
 * 1 where somebody refused, 64 for a usage error.
 */
#include "base.h"
#include "options.h"

#define EXIT_REFUSED 1
#define EXIT_NO_ANSWER 3 /* as UNKNOWN of a check: nothing is known to be wrong */

struct ctl {
        const char *root, *config; /* --root and --config as they stood before the verb; NULL: not given */
};

#define VERB(name, words, summary) int verb_##name(const struct ctl *c, int argc, char *argv[]);
#include "verbs.def"
#undef VERB
