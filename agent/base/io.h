/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Whole reads and writes on files: short counts and EINTR are dealt with once, here. And what a child lets
 * go of. */
#include <sys/types.h>
#include <sys/uio.h>

#include "base.h"

/* Reads until the end of the file or until size bytes are there. Returns the number of bytes or -errno. */
ssize_t io_read_up_to(int fd, void *buf, size_t size);

/* All that is there, from where fd stands: malloc'ed, NUL-terminated (the NUL is not counted). Of a regular
 * file as much as it has when it is begun, so nothing of those in /proc, which say 0. -E2BIG above max,
 * -ENOMEM, or -errno. */
int io_read_whole(int fd, size_t max, char **ret, size_t *ret_len);

/*
 * Whether a read of a regular file that gave n of the bytes it was asked for was the last: nothing is there
 * behind them, and to learn so would take one more call. Of a file on a disk any short read is. Those of
 * /proc and /sys are made of records, and what is left of a page is not filled when the next record is
 * longer than that (Linux, fs/seq_file.c): so below half a page it is, for files that have no longer record.
 * Not for those that have: mountinfo.
 */
bool io_was_last(size_t n, size_t asked);

/* What stands in the directory fd, which is taken over, also on failure; an fd that is a -errno is returned
 * as it is. */
int io_directory(int fd, DIR **ret);

/* Writes all of data. Returns 0 or -errno; on failure some of it may have been written. */
int io_write_all(int fd, const void *data, size_t len);

/*
 * In a child after fork(): closes every descriptor from 3 on but keep (-1: none), so that no lock and no
 * listening socket outlives the program that it belongs to. Before Linux 5.9, which has no call for it, they
 * stay open. Async-signal-safe.
 */
void io_close_others(int keep);

/*
 * Small files that are either the old or the new content after any crash: written beside the target,
 * fdatasync, rename, fsync of the directory. What we read again ourselves goes through state_file.h.
 */

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

/* As io_read_whole(), of a regular file; -EINVAL: it is none. -ENOENT, … */
int durable_read(int dir_fd, const char *name, size_t max, char **ret, size_t *ret_len);
