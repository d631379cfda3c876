/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The kernel log, read without ever blocking and without drowning: each fault is counted by its kind, and
 * told once and then, with the number of lines since, at most once in KERNEL_FAULT_QUIET; what was
 * overwritten before it was read is counted, too.
 */
#include "kernel_fault.h"
#include "look.h"

#define KERNEL_FAULT_QUIET (60 * USEC_PER_SEC)
#define KERNEL_LOG_BATCH 512 /* records of one kernel_log_read(): less than a millisecond */
#define KERNEL_FAULT_TEXT_MAX 256

struct kernel_fault_report {
        enum kernel_fault fault;
        uint64_t lines;   /* of this kind since the last report, this one's included */
        const char *text; /* the first of them, printable */
        unsigned level;
        bool by_kernel;   /* false: a process wrote it */
        uint64_t seq;
        usec_t at;        /* since boot */
};

struct kernel_log;
/*
 * fd: /dev/kmsg or anything that gives a record a read, non-blocking; it is kept and closed. after: the last
 * sequence number that was dealt with before; UINT64_MAX: none, all that is there counts.
 */
int kernel_log_new(int fd, uint64_t after, struct kernel_log **ret);
struct kernel_log *kernel_log_free(struct kernel_log *l);
DEFINE_CLEANUP(struct kernel_log *, kernel_log_free)

/* Reads up to KERNEL_LOG_BATCH records. 1: there may be more; 0: that was all; -errno: this log cannot be
 * read any more. */
int kernel_log_read(struct kernel_log *l);
/* Hands over each kind that waits and may be told again. all: without regard to when it was told last.
 * Returns how many. */
unsigned kernel_log_tell(struct kernel_log *l, usec_t now, bool all,
                         void (*tell)(const struct kernel_fault_report *r, void *userdata), void *userdata);
/* The last record that was read; UINT64_MAX: none. */
uint64_t kernel_log_seq(const struct kernel_log *l);
/* l may be NULL: no kernel log is watched. */
void kernel_log_sample(const struct kernel_log *l, struct sink *s);
