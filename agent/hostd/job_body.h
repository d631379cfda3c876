/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The body of POST /v1/jobs: the intent of docs/registry.md without by, at and stop, of a run of this host
 * alone. One with slices, min or max is for the registry, and nothing else of it is looked at. Pure; the
 * body is foreign.
 */
#include "run_spec.h"

struct job_body {
        Run__Spec *spec;  /* NULL: over slices */
        bool over_slices;
        uint64_t generation;
        char serial[64];
};
/* -EINVAL with one line of why, naming the member; -ENOMEM. */
int job_body_parse(const char *text, size_t len, struct job_body *ret, char why[static RUN_WHY_MAX]);
void job_body_clear(struct job_body *b);
#define _cleanup_job_body_ _cleanup_(job_body_clear)
