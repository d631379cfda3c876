/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which processes have a TPU's device node open, as tpu-launchd tells it (proto/local.proto, OwnersReply).
 */
#include "base.h"

#define DEVICE_OWNERS_MAX 256

struct device_owner {
        char device[32]; /* "/dev/vfio/0", "/dev/accel0" */
        uint32_t pid, uid;
        char unit[96];    /* systemd's, "" when in none */
        char command[96]; /* the program and its first argument: the rest may hold secrets */
};

struct device_owners {
        int error; /* 0, or -errno of asking, with why; the list is then empty */
        char why[192];
        bool incomplete; /* there were more, or some processes could not be read */
        size_t n;
        struct device_owner owners[DEVICE_OWNERS_MAX];
};
