/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The arguments of `ray start` about one host, none with a blank in it: resources and labels as Ray itself
 * gives them where it finds a TPU (python/ray/_private/accelerators/tpu.py). Pure.
 */
#include "base.h"

struct ray_host {
        const char *type, *topology;
        const char *slice; /* NULL: not known */
        size_t worker;
        uint32_t chips;
};

/* "--resources=… --labels=…", for free(). NULL: no memory. */
char *ray_start_text(const struct ray_host *h);

/* "HOST:PORT" */
bool ray_head_is_valid(const char *text);
