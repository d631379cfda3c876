/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Authority (authority.h) asked about the runs that are there: 0, or -EACCES and -ENOENT with p filled. */
#include "authority.h"
#include "runs.h"

/* Finds the run for an action and asks whether this caller may do it. */
int rights_check(struct runs *r, const struct caller *c, enum action action, const char *name,
                 struct problem *p);
/* A run of a higher generation ends the one before, which may be another user's. */
int rights_check_replacing(struct runs *r, const struct caller *c, const struct job *j, struct problem *p);
int rights_check_hint(const struct caller *c, struct problem *p);
