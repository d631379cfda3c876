/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The kernel log, read without ever blocking and without drowning: each fault is counted by its kind, and
 * reported once and then, with the number of lines since, at most once in KERNEL_FAULT_QUIET; what was
 * overwritten before it was read is counted, too.
 */
#include "probe.h"

/*
 * --- One record of /dev/kmsg (Linux, Documentation/ABI/testing/dev-kmsg), and what kind of fault it tells
 * of. Pure. ---
 */

#define KMSG_RECORD_MAX 8192 /* CONSOLE_EXT_LOG_MAX of older kernels, the most that one read gives */

struct kmsg_record {
        unsigned level;    /* 0 emergency … 7 debug */
        unsigned facility; /* 0: the kernel itself; another: written by a process */
        uint64_t seq;
        usec_t at;        /* since boot, on the clock of the kernel log */
        const char *text; /* into what was parsed; no line end, not terminated */
        size_t len;
};
/* "6,1234,5678901,-;text\n KEY=value\n". -EBADMSG. */
int kmsg_parse(const char *data, size_t size, struct kmsg_record *ret);

enum kernel_fault {
        KERNEL_FAULT_PCIE_UNCORRECTED,
        KERNEL_FAULT_PCIE_CORRECTED,
        KERNEL_FAULT_MACHINE_CHECK,
        KERNEL_FAULT_HUNG_TASK,
        KERNEL_FAULT_LOCKUP,
        KERNEL_FAULT_OOM,
        KERNEL_FAULT_VFIO,
        KERNEL_FAULT_IOMMU,
        KERNEL_FAULT_NIC_RESET,
        KERNEL_FAULT_DISK,
        KERNEL_FAULT_CONNTRACK_FULL,
        KERNEL_FAULT_THERMAL,
        KERNEL_FAULT_KERNEL_BUG,
        _KERNEL_FAULT_MAX, /* no fault */
};
/* Stable: "pcie_uncorrected", … */
const char *kernel_fault_name(enum kernel_fault f);
/* What it means for a person, a few words. */
const char *kernel_fault_meaning(enum kernel_fault f);
/* Whether the host goes on as before: an event of it warns, the others' are errors. */
bool kernel_fault_is_mild(enum kernel_fault f);
enum kernel_fault kernel_fault_of(const struct kmsg_record *r);

/* --- The log --- */

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
/* Hands over each kind that waits and may be reported again. all: without regard to when it was reported
 * last. Returns how many. */
unsigned kernel_log_tell(struct kernel_log *l, usec_t now, bool all,
                         void (*tell)(const struct kernel_fault_report *r, void *userdata), void *userdata);
/* The last record that was read; UINT64_MAX: none. */
uint64_t kernel_log_seq(const struct kernel_log *l);
/* l may be NULL: no kernel log is watched. */
void kernel_log_sample(const struct kernel_log *l, struct sink *s);
