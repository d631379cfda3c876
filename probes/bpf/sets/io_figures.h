/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once
/*
 * What the watch programs of io.bpf.c count of one run's storage, for both sides. Times are nanoseconds; who
 * watches sets all to zero before. Included behind vmlinux.h or <linux/types.h>.
 */
#define IO_BUCKETS 24 /* of times: below 1 us, 2 us, 4 us, … 2^22 us; the last one: all above */
#define IO_KEPT 8     /* of the slowest requests and calls, each */
#define IO_NAME_MAX 32
#define IO_FILE_MAX 64

enum io_operation { IO_READ, IO_WRITE, IO_FLUSH, IO_OTHER, IO_OPERATIONS };
enum io_call { IO_CALL_OPEN, IO_CALL_READ, IO_CALL_WRITE, IO_CALL_SYNC, IO_CALL_CLOSE, IO_CALLS };
#define IO_CALL_PLACES 8 /* a power of two from IO_CALLS on: old verifiers bound an index by a mask alone */

/* Written by who watches, before it attaches. */
struct io_orders {
        __u64 group; /* inode of the run's control group; 0: nobody is watched */
        __u64 since; /* monotonic clock: what began before is of an earlier watch */
        __u64 slow;  /* a call that took longer is looked at closer */
};

struct io_times {
        __u64 n, ns, bytes;
        __u64 buckets[IO_BUCKETS];
};

/* A request to a disk, or a call on a file of a file system that others serve. */
struct io_slow {
        __u64 ns, ended; /* ended: monotonic clock; 0: free */
        __u64 bytes;
        __u32 kind; /* enum io_operation or enum io_call */
        __u32 tid;  /* of a call, in the first pid namespace; 0 of a request */
        char comm[16];          /* of who asked */
        char where[IO_NAME_MAX]; /* disk, or type of the file system */
        char file[IO_FILE_MAX]; /* of a call: last part of its path */
};

struct io_figures {
        struct io_times requests[IO_OPERATIONS];
        /* on file systems that others serve, those slower than orders.slow alone */
        struct io_times calls[IO_CALL_PLACES];
        struct io_slow slow_requests[IO_KEPT], slow_calls[IO_KEPT];
        __u64 stalls; /* times that a thread of the run had to pause because too much was unwritten */
        __u64 lost;   /* requests and calls that found no room */
};
