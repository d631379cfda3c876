/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a pass logs: how it names settings, and how many lines it may take. */
#include "pass.h"

/*
 * Whether one more line may be logged: of the daemon's repairs 10 a minute, whatever changes. An important
 * one may take the last. Lines that were kept back are counted, and the count is logged.
 */
bool pass_may_log(struct netcfg *n, bool important);
/* What a subject is, in front of it: "MTU of ". */
const char *pass_label(enum op_kind kind);
/* Logs how many were kept back, once there is room. */
void pass_log_kept(struct netcfg *n);
