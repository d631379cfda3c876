/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * TPU chips as sysfs shows them: /sys/bus/pci/devices/ADDRESS/{vendor,device,class,driver}, and the nodes of
 * the accel class. Never /dev: other vendors make /dev/accel and /dev/vfio nodes, too.
 */
#include "base.h"
#include "host.h"

#define TPU_CHIPS_MAX 64    /* the largest host has 8; more than this is no TPU host */
#define PCI_ADDRESS_SIZE 16 /* "0000:00:04.0" and NUL, with room for wider domains */

struct tpu_model {
        uint16_t device;
        bool function_per_core; /* a chip is a slot, and each of its functions one core */
        const char *generation; /* "v6e" */
};

struct tpu_chip {
        char address[PCI_ADDRESS_SIZE]; /* of its first function */
        const struct tpu_model *model;
        unsigned functions;
        unsigned nodes; /* functions that a program can open: bound to vfio-pci, or behind an accel node */
};

struct tpu_inventory {
        struct tpu_chip chips[TPU_CHIPS_MAX];
        size_t n;
        char strange[PCI_ADDRESS_SIZE]; /* first device of the vendor and of class 0x1200 whose id is in no
                                           table; n_strange of them */
        uint16_t strange_device;
        unsigned n_strange;
        char unreadable[PCI_ADDRESS_SIZE]; /* first device whose ids could not be read; n_unreadable of them
                                            */
        unsigned n_unreadable;
};

/* -ENOENT: there is no /sys/bus/pci/devices; -E2BIG: more devices or chips than any TPU host has. */
int tpu_inventory_read(const struct host *h, struct tpu_inventory *ret);
