/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Log lines for people: to the journal with priority when standard error is the journal, else
 * "PROGRAM: text" to standard error. The one piece of process-wide state (program name, level) is set
 * once in main() before anything else runs.
 *
 * A function either logs its failures or returns them, never both; libraries below main() return.
 */
#include <syslog.h>

#include "base.h"

/* Remembers the program's name (borrowed, static) and where lines go. Level: LOG_INFO until changed. */
void log_open(const char *program);
void log_set_level(int level);

/* error: 0 or a (negative or positive) errno that %m in fmt then names. Returns -abs(error). */
int log_full(int priority, int error, const char *fmt, ...) _printf_(3, 4);

#define log_debug(...) ((void) log_full(LOG_DEBUG, 0, __VA_ARGS__))
#define log_info(...) ((void) log_full(LOG_INFO, 0, __VA_ARGS__))
#define log_notice(...) ((void) log_full(LOG_NOTICE, 0, __VA_ARGS__))
#define log_warning(...) ((void) log_full(LOG_WARNING, 0, __VA_ARGS__))
#define log_error(...) ((void) log_full(LOG_ERR, 0, __VA_ARGS__))
#define log_debug_errno(error, ...) log_full(LOG_DEBUG, (error), __VA_ARGS__)
#define log_warning_errno(error, ...) log_full(LOG_WARNING, (error), __VA_ARGS__)
#define log_error_errno(error, ...) log_full(LOG_ERR, (error), __VA_ARGS__)

/*
 * A journal entry with fields of its own: message_id is 32 hex digits, fields is n strings "KEY=value".
 * Without a journal the message is printed as an ordinary line of that priority. Returns 0 or -errno.
 */
int log_event(int priority, const char *message_id, const char *message, const char *const *fields, size_t n);
