/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Stacks that training programs wrote into files: the event tpu.stack.file for each that is new
 * ([StackFiles] Path=). */
#include "agent.h"
#include "probe.h"

/* What cannot be watched is said and no failure. -ENOMEM. */
int agent_stack_files_start(struct bus *b);
void agent_stack_files_stop(struct bus *b);
/* In the tick: the numbers; folders are listened to again. */
void agent_stack_files_tick(struct bus *b, struct sink *s);
