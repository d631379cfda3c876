/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The JSON of print.h (docs/stack.md), as it goes along: what is left out for want of room is whole frames,
 * threads and processes, so that what is there is JSON always.
 */
#include "print.h"

void json_begin(struct output *o);
void json_capture(struct output *o, const struct capture *c);
void json_failure(struct output *o, pid_t pid, const char *command, const char *why);
void json_end(struct output *o);
