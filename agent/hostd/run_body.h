/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The body of POST /v1/runs: the intent of docs/registry.md without by, at and stop, of a run of this host
 * alone. One with slices, min or max is for the registry, and nothing else of it is looked at. Pure; the
 * body is foreign.
 */
#include "run_spec.h"

struct run_body {
        Run__Spec *spec;  /* NULL: over slices */
        bool over_slices;
        uint64_t generation;
        char serial[64];
};
/* -EINVAL with one line of why, naming the member; -ENOMEM. */
int run_body_parse(const char *text, size_t len, struct run_body *ret, char why[static RUN_WHY_MAX]);
void run_body_clear(struct run_body *b);
#define _cleanup_run_body_ _cleanup_(run_body_clear)
