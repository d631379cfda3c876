/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A cheap mark of who uses the chips, from sysfs: it changes when one is opened or closed. Of each chip
 * (PCI, vendor 0x1ae0, class 0x1200) the number "enable", which vfio-pci raises with the first open and
 * lowers with the last close (drivers/vfio/pci/vfio_pci_core.c), and "refcnt" of its driver's module, which
 * each open file of a device node raises (fs/char_dev.c, chrdev_open()). On real chips neither was tried:
 * who relies on it also looks now and then without it.
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
