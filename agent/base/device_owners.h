/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which processes have a TPU's device node open, or listen on a port that a run binds, as tpu-launchd tells
 * it (proto/local.proto, OwnersReply). */
#include "base.h"

#define DEVICE_OWNERS_MAX 256

struct device_owner {
        char device[32]; /* "/dev/vfio/0", "/dev/accel0" */
        uint32_t pid, uid;
        char unit[96];    /* systemd's, "" when in none */
        char command[96]; /* the program and its first argument: the rest may hold secrets */
};

/*
 * The ports that the processes of a run bind on their own host, whatever the framework (init_args.h has the
 * sources): libtpu's metrics and mesh, a process of torch_xla for each chip, JAX's coordinator.
 */
#define RUN_PORTS "8431-8438,8471,8476-8483"
static inline bool port_is_of_runs(unsigned port) {
        return (port >= 8431 && port <= 8438) || port == 8471 || (port >= 8476 && port <= 8483);
}

#define PORT_OWNERS_MAX 32

/* Who listens on one. */
struct port_owner {
        uint16_t port;
        uint32_t uid, pid; /* pid 0: no process of this host has the socket open, or it was not seen */
        uint64_t inode;    /* the socket's: while they are looked for */
        char unit[96], command[96];
};

struct device_owners {
        int error; /* 0, or -errno of asking, with why; the list is then empty */
        char why[192];
        bool incomplete; /* there were more, or some processes could not be read */
        size_t n;
        struct device_owner owners[DEVICE_OWNERS_MAX];
        size_t n_ports;
        struct port_owner ports[PORT_OWNERS_MAX];
};
