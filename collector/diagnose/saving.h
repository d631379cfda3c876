/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether a rank writes: it is in a library's or the training's own code that saves, or in a system call that writes to
 * a file. Others wait for it then as they do for one that is stuck; who saves and gets on is slow, not stuck.
 */
#include "evidence.h"

/* By its last capture. What changed while it was read is told by the frames that were read. */
bool rank_saves(const struct evidence *e, const struct rank *r);
/* Pure: whether a function's name says so: save, _save_all, Checkpoints.save, write_shard, dump. */
bool function_saves(const char *name);
