/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * tpu-hostd --hook, the process of one hook call: asks the collector how much of the slice is out of
 * service, and becomes the command when that is little enough. Everything is in its environment, as
 * hook_brake_environment() puts it there; the command does not see it. It may block and be killed: nothing
 * of the agent hangs on it.
 *
 * Out of service is a host that is unfit, cordoned or draining, or of which the collector heard nothing for
 * a minute. The brake is on when such hosts, this one left out, are at least brake percent of the slice,
 * when the collector does not answer, and when the slice is not known. Without a collector there is no
 * brake.
 */
#include <jansson.h>

#include "base.h"
#include "host.h"

#define HOOK_ARGUMENTS_MAX 16 /* words of the command */
#define BRAKE_SILENT_SECONDS 60
#define BRAKE_ANSWER_MAX (8 * 1024 * 1024)

enum brake { BRAKE_OFF, BRAKE_ON, BRAKE_UNKNOWN };

/* Pure: answer is that of GET /api/v1/hosts. */
enum brake brake_decide(const json_t *answer, const char *slice, const char *host, unsigned percent);

/* Adds what hook_brake_run() reads to a list of hook_environment.h. slice may be NULL. False: out of memory. */
bool hook_brake_environment(char **list, const char *command, const char *collector, const char *slice,
                            const char *host, unsigned percent);
/* Does not return when all is well. Else the exit code of the process. */
int hook_brake_run(const struct host *h);
/* Why a call was held, of an exit code of hook_brake_run(); NULL: it was not. */
const char *hook_brake_text(int exit_code);
