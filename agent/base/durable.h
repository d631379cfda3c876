/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Small files that are either the old or the new content after any crash: written beside the target,
 * fdatasync, rename, fsync of the directory.
 */
#include <sys/types.h>

#include "base.h"

/* name: one path component inside dir_fd. Returns 0 or -errno; on failure the old content stands. */
int durable_write(int dir_fd, const char *name, const void *data, size_t len, mode_t mode);

/* Reads at most max bytes; *ret is malloc'ed, NUL-terminated (the NUL is not counted). -E2BIG, -ENOENT, … */
int durable_read(int dir_fd, const char *name, size_t max, char **ret, size_t *ret_len);
