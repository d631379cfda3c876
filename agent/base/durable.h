/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Small files that are either the old or the new content after any crash: written beside the target,
 * fdatasync, rename, fsync of the directory. What we read again ourselves goes through state_file.h.
 */
#include <sys/types.h>
#include <sys/uio.h>

#include "base.h"

/* name: one path component inside dir_fd. Returns 0 or -errno; on failure the old content stands. */
int durable_write(int dir_fd, const char *name, const void *data, size_t len, mode_t mode);

struct durable_options {
        mode_t mode;
        bool lazy; /* the disk is not waited for: it outlives a kill of the process, not a power cut */
};
/* The same of several parts, one behind the other. Allocates nothing: a child of a threaded program may
 * call it. */
int durable_write_parts(int dir_fd, const char *name, const struct iovec parts[], size_t n_parts,
                        const struct durable_options *o);

/* Reads at most max bytes; *ret is malloc'ed, NUL-terminated (the NUL is not counted). -E2BIG, -ENOENT, … */
int durable_read(int dir_fd, const char *name, size_t max, char **ret, size_t *ret_len);
