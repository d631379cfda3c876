/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Where a program is that only tpu-hostd starts: beside tpu-hostd, as in a build, else where it is installed. */
#include <limits.h>

#include "base.h"
#include "worker.h"

/* 0, or -errno: of the installed one, whose path ret then is. */
int private_program_find(const char *name, char ret[static PATH_MAX]);

/*
 * Where tpu-hostd-probe is (worker.h): beside tpu-hostd, as in a build, else where it is installed. It is held
 * open, so that also after an upgrade the one of this very version runs.
 */

struct probe_program {
        struct worker_program program;
        int fd;
        char path[32]; /* of fd, in /proc/self/fd */
};

#define PROBE_PROGRAM_NULL ((struct probe_program){ .fd = -1 })

/* 0, or -errno: of the installed one, and program then names that one: whoever starts it is told. */
int probe_program_open(struct probe_program *ret);
void probe_program_close(struct probe_program *p);
