/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is said of one run or of all: a JobsReply, valid until the next turn of the loop, for it borrows from
 * the runs.
 */
#include "local.pb-c.h"
#include "runs.h"

#define JOB_LIST_MAX (JOBS_KEPT + 2 * JOBS_ACTIVE_MAX)

struct job_list {
        Local__JobsReply reply;
        Local__Job *jobs[JOB_LIST_MAX];
};

/* name: of the run, or "" for all. -ENOENT when there is no such run, -ENOMEM. To be cleared in any case. */
int job_list_make(struct runs *r, const char *name, struct job_list *ret);
void job_list_clear(struct job_list *l);
