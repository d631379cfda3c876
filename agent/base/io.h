/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Whole reads and writes on files: short counts and EINTR are dealt with once, here. And what a child lets go of. */
#include <sys/types.h>

#include "base.h"

/* Reads until the end of the file or until size bytes are there. Returns the number of bytes or -errno. */
ssize_t io_read_up_to(int fd, void *buf, size_t size);

/* Writes all of data. Returns 0 or -errno; on failure some of it may have been written. */
int io_write_all(int fd, const void *data, size_t len);

/*
 * In a child after fork(): closes every descriptor from 3 on but keep (-1: none), so that no lock and no listening
 * socket outlives the program that it belongs to. Before Linux 5.9, which has no call for it, they stay open.
 * Async-signal-safe.
 */
void io_close_others(int keep);
