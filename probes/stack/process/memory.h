/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The memory of another process, read only, by pages that are kept until refreshed or forgotten, so that a
 * walk needs few system calls. The target is not stopped: two reads of one page may differ, and a page may
 * be copied while it is being written. Nothing read from here may be trusted.
 *
 * All functions return 0 or -errno: -EFAULT the address is not mapped (or wraps), -EPERM not allowed, -ESRCH
 * the process is gone, -E2BIG more than MEMORY_READ_MAX bytes were asked of the target in all, -ENOMEM.
 */
#include <sys/types.h>
#include <sys/uio.h>

#include "base.h"

#define MEMORY_PAGE 4096u
#define MEMORY_PAGES_MAX 4096u              /* kept at a time: 16 MiB; when full, all are forgotten */
#define MEMORY_AHEAD_MAX 4u /* the initial value: the first data stack chunk of CPython is 16 KiB */
#define MEMORY_MANY_MAX 512u
#define MEMORY_READ_MAX (UINT64_C(1) << 30) /* of one target in all */

/* Where bytes come from. readv has the contract of process_vm_readv(2), but for -errno in place of -1. */
struct memory_source {
        ssize_t (*readv)(void *userdata, const struct iovec *local, const struct iovec *remote, size_t n);
        void *userdata;
        /* nanoseconds, to tell how far apart two copies are; NULL: they always count as close */
        uint64_t (*now)(void);
};

struct memory_page {
        uint64_t number;  /* address / MEMORY_PAGE */
        bool present;     /* false: was not readable */
        bool used;        /* something in it was read since memory_refresh(), not just in its neighbour */
        uint8_t *data[2]; /* two sides: see memory_refresh_twice(); the second is NULL until then */
};

struct memory {
        struct memory_source source;
        struct memory_page *pages; /* in the order they were first read */
        size_t n_pages, pages_size;
        size_t n_filled; /* those behind are asked for together with the next one that is missing */
        uint8_t **slabs; /* where their data lies */
        size_t n_slabs, slabs_size, slab_used;
        uint32_t *table; /* page number → index + 1; NULL before the first page */
        size_t table_size;
        uint64_t bytes_read;
        unsigned side;     /* which of the two copies memory_read() reads: 0 or 1 */
        unsigned sides;    /* how many are filled: 2 after memory_refresh_twice() */
        bool disturbed;    /* memory_refresh_twice() was interrupted: its copies are far apart */
        uint64_t quickest; /* memory_refresh_twice() so far, nanoseconds a page; 0: never */
        /* pages read together on a miss, 1 to MEMORY_AHEAD_MAX, the others those before it, where callers
         * have their frames: fewer calls against a shorter moment */
        unsigned ahead;
};

void memory_init(struct memory *m, struct memory_source source);
void memory_clear(struct memory *m);
#define _cleanup_memory_ _cleanup_(memory_clear)

/*
 * The memory of a process, by process_vm_readv(2). pid is stored in *pid_slot (borrowed, must outlive the
 * source).
 */
struct memory_source memory_source_process(pid_t *pid_slot);

int memory_read(struct memory *m, uint64_t address, void *buf, size_t len);
/* Reads a little-endian pointer or unsigned long. */
int memory_read_u64(struct memory *m, uint64_t address, uint64_t *ret);

/*
 * n parts (at most MEMORY_MANY_MAX) in one call, without keeping anything: from address remote[i] into
 * local[i]. -EFAULT: one of them is not mapped.
 */
int memory_read_many(struct memory *m, const struct iovec *local, const uint64_t *remote, size_t n);

/*
 * Names what will be read soon: the next miss asks for all of it in one call. At most four pages; what does
 * not fit is left to its own miss. -ENOMEM.
 */
int memory_want(struct memory *m, uint64_t address, size_t len);

/* Reads every page again that was used since the last time, in as few calls as possible, and drops the
 * others. */
int memory_refresh(struct memory *m);
/* The same for a new walk: the bound on bytes counts from here. */
int memory_renew(struct memory *m);
/*
 * Reads every kept page twice in one call, first all into side 0 (backwards), then all into side 1, so that
 * the two copies are some microseconds apart and what moved while they were made differs; m->disturbed tells
 * when they were not. More pages than fit one call: -E2BIG. A page first read after it has two copies that
 * are the same: n_pages tells.
 */
int memory_refresh_twice(struct memory *m);
/* Drops every kept page: the next read asks the target. */
void memory_forget(struct memory *m);
