/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * TPU chips as sysfs shows them: /sys/bus/pci/devices/ADDRESS/{vendor,device,class,driver}, and the nodes of
 * the accel class. Never /dev: other vendors make /dev/accel and /dev/vfio nodes, too. Which device ids are
 * chips is data: machines.conf (machine.h).
 */
#include "base.h"
#include "host.h"
#include "machine.h"
#include "probe.h"

#define TPU_CHIPS_MAX 64    /* the largest host has 8; more than this is no TPU host */
#define PCI_ADDRESS_SIZE 16 /* "0000:00:04.0" and NUL, with room for wider domains */

struct tpu_chip {
        char address[PCI_ADDRESS_SIZE]; /* of its first function */
        uint16_t device;
        struct machine_chip model;
        unsigned functions;
        unsigned nodes; /* functions that a program can open: bound to vfio-pci, or behind an accel node */
};

struct tpu_inventory {
        struct tpu_chip chips[TPU_CHIPS_MAX];
        size_t n;
        /* first device of the vendor and of class 0x1200 whose id is in no table; n_strange of them */
        char strange[PCI_ADDRESS_SIZE];
        uint16_t strange_device;
        unsigned n_strange;
        /* first device whose ids could not be read; n_unreadable of them */
        char unreadable[PCI_ADDRESS_SIZE];
        unsigned n_unreadable;
};

/* -ENOENT: there is no /sys/bus/pci/devices; -E2BIG: more devices or chips than any TPU host has; -ENOPKG:
 * there is a device of the vendor and no machines.conf. */
int tpu_inventory_read(const struct host *h, struct tpu_inventory *ret);

/* 1: this host has TPU chips; 0: none; -errno: it is not known. What is wanted for TPUs is wanted nowhere
 * else. */
int tpu_are_there(const struct host *h);

/*
 * Calls visit with the path of each device node by which a program opens this host's chips, as sysfs names
 * them: /dev/vfio/GROUP of a function bound to vfio-pci, /dev/accelN of one behind the accel class. The
 * group of a function is no chip's index. Stops at the first non-zero return of visit and returns it.
 */
#define TPU_NODE_MAX 32
int tpu_visit_nodes(const struct host *h, int (*visit)(const char *node, void *userdata), void *userdata);
/* The same for who has looked just now. */
int tpu_inventory_visit_nodes(const struct host *h, const struct tpu_inventory *v,
                              int (*visit)(const char *node, void *userdata), void *userdata);

/*
 * The machine type of a probe's context: given by whoever runs the probe, else looked up in machines.conf.
 * False: no machine type is known, or machines.conf does not have it.
 */
bool machine_of(const struct host *h, const struct probe_context *c, struct machine_type *ret);
