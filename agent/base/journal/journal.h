/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Log lines and events into the systemd journal, for daemons. A room apart from base, so that one-shot programs do not load
 * libsystemd (half a millisecond of tpu-stack's three).
 */
#include "events.h"
#include "log.h"

/* log_open(), and from then on lines go to the journal with their priority when standard error is the journal's. */
void journal_open(const char *program);

/*
 * An event as a journal entry: its sentence, MESSAGE_ID, TPU_EVENT=NAME, and TPU_KEY=value for each field
 * that is no long text. Without a journal the sentence is printed as an ordinary line. Returns 0 or -errno.
 */
int journal_event(const struct event *e);
