/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Log lines and events into the systemd journal, for daemons. A room apart from base, so that one-shot programs do not load
 * libsystemd (half a millisecond of tpu-stack's three).
 */
#include "log.h"

/* log_open(), and from then on lines go to the journal with their priority when standard error is the journal's. */
void journal_open(const char *program);

/*
 * A journal entry with fields of its own: message_id is 32 hex digits, fields is n strings "KEY=value", at most
 * JOURNAL_FIELDS_MAX. Without a journal the message is printed as an ordinary line. Returns 0 or -errno.
 */
#define JOURNAL_FIELDS_MAX 24
int journal_event(int priority, const char *message_id, const char *message, const char *const *fields, size_t n);
