/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"
#include "bpf_own.h"
#include "bpf_set.h"
#include "io_figures.h"

#include "io.skel.h" /* names their types */

static const char *const watch[] = { "on_issue", "on_complete", "on_enter", "on_return", "on_held_back", NULL };

const struct bpf_set bpf_set_io = {
        .name = "io",
        .summary = "under watch: requests of a run to disks, slow calls on network file systems",
        .elf = io__elf_bytes,
        .watch = watch,
};
