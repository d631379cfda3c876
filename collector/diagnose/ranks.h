/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What is known of ranks beside where they stand, and how sets of their hosts are printed. */
#include "evidence.h"

size_t active_ranks(const struct evidence *e);

/* Sorts the ranks into the evidence's classes. -ENOMEM. */
int ranks_classify(struct evidence *e);

/* Whose process is gone: it says so, or has no process where others have. */
bool host_has_left(const struct seen_host *h, const struct evidence *e);
/* It answered, and could not read its ranks: of the run it says as little as one that is silent. */
bool host_unreadable(const struct evidence *e, const struct seen_host *h);

/*
 * Whether a rank writes: it is in a library's or the training's own code that saves, or in a system call
 * that writes to a file. Others wait for it then as they do for one that is stuck; who saves and gets on is
 * slow, not stuck.
 */

/* By its last capture. Of a stack that changed while it was read, the frames that were read count. */
bool rank_saves(const struct evidence *e, const struct rank *r);
/* Pure: whether a function's name says so: save, _save_all, Checkpoints.save, write_shard, dump. */
bool function_saves(const char *name);

/* Sets of hosts as people read them: "[0-4,6-63]". */

/*
 * Writes the hosts i with in[i] to f: their worker numbers where all have one and one slice is shown
 * ("[0-4,6-63]"); with more slices one list each ("a[0-3] b[1]"); names where there are no numbers
 * ("[h1,h2]"). At most `parts` ranges or names, then "…".
 */
void rank_set_print(FILE *f, const struct evidence *e, const bool *in, unsigned parts);
