/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One record of /dev/kmsg (Linux, Documentation/ABI/testing/dev-kmsg), and what kind of fault it tells of.
 * Pure. */
#include "base.h"

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
