/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who sets a setting of the network, out of the records of writers.bpf.c. Pure. tpu-netcfg itself, and a
 * tpu-netcfg --once of a person, are nobody here. Of several that set it the one counts whose control group
 * did so most often: who sets it once by chance is not blamed for who does so in a loop.
 */
#include <linux/types.h>

#include "base.h"
#include "writers_figures.h"

struct writer_query {
        enum writer_kind kind;
        const char *name, *folder; /* of a sysctl; name of a NIC */
        int index;                 /* of that NIC; 0: any */
        usec_t since;              /* boot clock: what is older does not count */
};

struct writer {
        int pid, parent; /* 0: outside of this pid namespace */
        char group[WRITER_GROUP_MAX];     /* "fighter.service" */
        char command[WRITER_COMMAND_MAX]; /* one line of valid UTF-8, without what may be a secret */
};

/* f changes while it is read. False: nobody was seen. */
bool writers_find(const struct writers_figures *f, const struct writer_query *q, struct writer *ret);
