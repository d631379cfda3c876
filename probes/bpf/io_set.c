/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"
#include "bpf_own.h"
#include "bpf_set.h"
#include "io_figures.h"

#include "io.skel.h" /* names their types */

static const char *const watch[] = {
        "on_issue", "on_complete", "on_enter", "on_return", "on_held_back", NULL
};

/* How long a writer is held back is the last argument but one, of 12 or, on newer kernels, 8
 * (include/trace/events/writeback.h). */
static int prepare(struct bpf_object *o, const struct btf *kernel) {
        uint32_t at = bpf_set_arguments(kernel, "balance_dirty_pages");

        at -= MIN(at, 2u);
        return bpf_set_constant(o, "pause_argument", &at, sizeof(at));
}

const struct bpf_set bpf_set_io = {
        .name = "io",
        .summary = "under watch: requests of a run to disks, slow calls on network file systems",
        .elf = io__elf_bytes,
        .watch = watch,
        .prepare = prepare,
};
