/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A cheap mark of who uses the chips, from sysfs: it changes when one is opened or closed. It is made of
 * two numbers of each chip (PCI, vendor 0x1ae0, class 0x1200). "enable" is raised by vfio-pci with the first
 * open and lowered with the last close (vfio_pci_core.c of the kernel). The count of users of its driver's
 * module is raised by each open file of a device node (fs/char_dev.c, chrdev_open()). On real chips neither
 * was tried: who relies on it also looks now and then without it.
 */
#include "host.h"

#define CHIP_MARKS_MAX 16u

struct chip_marks {
        char address[CHIP_MARKS_MAX][16]; /* "0000:00:04.0" */
        size_t n;
};

/* The chips of this host; n is 0 where there is none. */
void chip_marks_find(const struct host *h, struct chip_marks *ret);
/* The mark now: equal marks say that nothing was opened or closed. */
uint64_t chip_marks_read(const struct host *h, const struct chip_marks *m);
