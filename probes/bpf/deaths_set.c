/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"
#include "bpf_own.h"
#include "bpf_set.h"
#include "deaths_figures.h"

#include "deaths.skel.h" /* names their types */

const struct bpf_set bpf_set_deaths = {
        .name = "deaths",
        .summary = "who ends processes by which signal; victims of the OOM killer",
        .elf = deaths__elf_bytes,
};
