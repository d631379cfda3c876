/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"
#include "bpf_own.h"
#include "bpf_set.h"
#include "writers_figures.h"

#include "writers.skel.h" /* names their types */

/* Some kernels let nobody trace functions: then a contest says that its writer was not seen, and why. */
static const char *const optional[] = { "on_sysctl", "on_rtnetlink", "on_ioctl", NULL };

const struct bpf_set bpf_set_writers = {
        .name = "writers",
        .summary = "who changes settings of the network: sysctls, links, routes, rules",
        .elf = writers__elf_bytes,
        .optional = optional,
};
