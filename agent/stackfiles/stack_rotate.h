/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Keeps a user's files with stacks within a number of bytes: whoever writes them (cloud-tpu-diagnostics)
 * never deletes one. It is done by the user himself, before his run starts, because nobody else has a right
 * to it that could not be misused in a folder that anybody may write to.
 */
#include "host.h"

#define STACK_ROTATE_FOLDER "/tmp/debugging"
#define STACK_ROTATE_NAMES "stack_trace_*.txt"
#define STACK_ROTATE_KEEP ((uint64_t) 64 * 1024 * 1024)
#define STACK_ROTATE_AGE                                                                                    \
        (3600 * USEC_PER_SEC) /* what was written to since then stays: somebody may be at it */

/*
 * Deletes the oldest of the caller's own regular files until they take at most keep bytes together. No part
 * of folder's path is followed if it is a symbolic link. Returns how many were deleted; -ENOENT: there is no
 * such folder; other -errno: nothing was done.
 */
int stack_rotate(const struct host *h, const char *folder, const char *names, uint64_t keep,
                 usec_t now_real);
