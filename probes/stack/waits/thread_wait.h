/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What one thread waits for, for waits.c: its state, its system call, and what that one's arguments stand
 * for. */
#include "thread_waiting.h"

/* Adds to out what the thread waits for, nothing when it runs. -ENOMEM. */
int thread_wait_add(struct thread_waiting *t, const struct task *task);
