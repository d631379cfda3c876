/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Alone because it is the kernel's layout and no set's: reads a BPF ring buffer through its mapped pages
 * alone: no bpf(2), so that a process without capabilities can do it on every kernel that has ring buffers
 * (5.8). The layout is the kernel's contract with user space: kernel/bpf/ringbuf.c, include/uapi/linux/bpf.h
 * (BPF_RINGBUF_*). The map's descriptor is readable (epoll) when a record asked for it.
 */
#include "base.h"

struct ring_reader {
        uint64_t *consumed;       /* one page that is ours to write: how far we have read */
        const uint64_t *produced; /* one page, and behind it the data twice in a row */
        size_t size;
};
#define RING_READER_NULL ((struct ring_reader){ .size = 0 })

/* fd: of the map, borrowed, needed no more then; size: its max_entries. -errno. */
int ring_reader_open(int fd, size_t size, struct ring_reader *ret);
void ring_reader_close(struct ring_reader *r);

/* What waits, oldest first, max records at most. Returns how many. -EBADMSG: that is no ring of the
 * kernel's. */
int ring_reader_read(struct ring_reader *r, unsigned max,
                     void (*take)(const void *data, size_t len, void *userdata), void *userdata);
