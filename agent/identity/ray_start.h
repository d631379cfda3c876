/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The arguments of `ray start` on one host, none with a blank in it: resources and labels as Ray itself
 * gives them where it finds a TPU (python/ray/_private/accelerators/tpu.py). Pure.
 */
#include "base.h"

struct ray_host {
        const char *type, *topology;
        const char *slice; /* NULL: not known */
        size_t worker;
        uint32_t chips;
        const char *port; /* of the head, where this host is it; NULL: it joins one */
        const char *head; /* "HOST:PORT" */
};

/* "--head --port=6379 --resources=… --labels=…", for free(). -ENOMEM. */
int ray_start_text(const struct ray_host *h, char **ret);

/* "HOST:PORT" */
bool ray_head_is_valid(const char *text);
