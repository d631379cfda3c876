/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a machine type of Compute Engine has, as far as a public source says so. Chips are in the name itself
 * ("…-4t"); NICs only where a source counts them.
 */
#include "base.h"

struct machine {
        uint32_t chips;
        uint32_t nics;          /* 0: no source says */
        const char *generation; /* "v6e", as in struct tpu_model */
        const char *chips_source, *nics_source;
};

/* -ENOENT: not a known TPU machine type. */
int machine_find(const char *type, struct machine *ret);
