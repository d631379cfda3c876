/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The body of POST /v1/jobs: the intent of docs/registry.md without v, by, at and stop, of a run of this host alone. One with
 * slices, min or max is for the registry, and nothing else of it is looked at. Pure; the body is foreign.
 */
#include <jansson.h>

#include "base.h"
#include "local.pb-c.h"

#define JOB_BODY_WHY_MAX 200
#define JOB_BODY_LIST_MAX 1024 /* words of the command, and variables */

struct job_body {
        json_t *json; /* of the request's texts */
        bool over_slices; /* then message is empty */
        Local__RunRequest message;
        Local__RunLimits limits;
        Local__Preempt preempt;
        char **argv, **env; /* their texts are json's */
};
/* -EINVAL with one line of why, naming the member; -ENOMEM. */
int job_body_parse(const char *text, size_t len, struct job_body *ret, char why[static JOB_BODY_WHY_MAX]);
void job_body_clear(struct job_body *b);
#define _cleanup_job_body_ _cleanup_(job_body_clear)
