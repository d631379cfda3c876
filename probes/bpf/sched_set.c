/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"
#include "bpf_own.h"
#include "bpf_set.h"
#include "sched_figures.h"

#include "sched.skel.h" /* names their types */

static const char *const watch[] = { "on_wakeup",        "on_wakeup_new",   "on_switch", "on_migrate",
                                     "on_softirq_entry", "on_softirq_exit", NULL };

const struct bpf_set bpf_set_sched = {
        .name = "sched",
        .summary = "under watch: waits of a run for a CPU and in state D, softirqs on top of it, migrations",
        .elf = sched__elf_bytes,
        .watch = watch,
};
