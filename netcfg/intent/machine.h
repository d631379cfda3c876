/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What TPU chips and machine types there are, as data: machines.conf, the first of /etc, /run and /usr/lib
 * /tpu-hostd. A section is refused by itself when it has no Source= or a value that cannot be one.
 *
 *   [Chip 0x006f]                 the PCI device of vendor 0x1ae0
 *   Generation=v6e
 *   HbmGiB=32                     of one chip; left out where no public source says it
 *   Functions=1                   PCI functions of one chip
 *   Source=…
 *   [Machine ct6e-standard-4t]
 *   Generation=v6e
 *   Chips=4
 *   Nics=2                        left out where no public source says it
 *   Source=…
 */
#include "base.h"
#include "host.h"

#define MACHINE_GENERATION_MAX 16

struct machine_chip {
        char generation[MACHINE_GENERATION_MAX];
        uint32_t hbm_gib;   /* 0: not known */
        uint32_t functions; /* at least 1 */
        char source[96];
};

struct machine_type {
        char generation[MACHINE_GENERATION_MAX];
        uint32_t chips;
        uint32_t nics; /* 0: not known */
        char source[96];
};

/* -ENOENT: no such section; -ENOPKG: there is no machines.conf; else the -errno of reading it. */
int machine_chip(const struct host *h, uint16_t device, struct machine_chip *ret);
int machine_type(const struct host *h, const char *name, struct machine_type *ret);

/*
 * Whether there may be a TPU: a device of Google's on the PCI bus that neither stores nor is a NIC, known by
 * machines.conf or not. 1, 0, or -errno: it is not known.
 */
int machine_may_have_tpu(const struct host *h);

/* The one generation of all TPU chips in /sys/bus/pci. -ENOENT: none that is known, or of several. */
int machine_generation(const struct host *h, char ret[static MACHINE_GENERATION_MAX]);
