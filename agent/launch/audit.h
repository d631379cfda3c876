/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The journal's record of each acting call: who, what, when, result. One entry with MESSAGE_ID
 * AUDIT_MESSAGE_ID, which the catalog explains, and TPU_ACTION, TPU_JOB, TPU_DETAIL, TPU_BY, TPU_BY_UID,
 * TPU_BY_PID, TPU_RESULT (accepted or refused) and TPU_REASON. How a run that was accepted then started or
 * ended is in lines of its own.
 */
#include "authority.h"

#define AUDIT_MESSAGE_ID "5d0a3e1b7c9f4c5f8a20c61f3d7e4b92"
#define AUDIT_DETAIL_MAX 80

/* name: of the run, or "". result: 0 or -errno, with reason. */
void audit(const struct caller *c, enum action a, const char *name, const char *detail, int result,
           const char *reason);
