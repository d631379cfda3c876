/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Log lines for people: "PROGRAM: text" to standard error, or to where log_set_sink() says (journal.h). A
 * file of its own, for it holds the one piece of process-wide state. That (name, level, sink) is set once in
 * main() before anything else runs.
 *
 * A function either logs its failures or returns them, never both; libraries below main() return.
 */
#include <syslog.h>

#include "base.h"

#define LOG_LINE_MAX 2048

/* Remembers the program's name (borrowed, static). Level: LOG_INFO until changed. */
void log_open(const char *program);
void log_set_level(int level);
/* Takes a line (without newline) and the errno it is about, or 0; false: print it to standard error
 * instead. */
void log_set_sink(bool (*sink)(int priority, int error, const char *line));

/*
 * At most LOG_LIMIT lines within LOG_LIMIT_TIME, whatever happens so often, of which LOG_LIMIT_GRAVE are for
 * warnings and errors alone. More are counted, not written, and the count is the next line that may be. For
 * who acts on others' events; NULL, the default: no limit.
 * Debug lines are not bounded.
 */
#define LOG_LIMIT 10
#define LOG_LIMIT_GRAVE 2
#define LOG_LIMIT_TIME (60 * USEC_PER_SEC)
struct log_limit {
        usec_t now, written[LOG_LIMIT]; /* boot clock; the oldest of them is the next */
        unsigned next, unwritten;
};
void log_set_limit(struct log_limit *l);
/* The time of the lines from here on. Writes the count when it is due. */
void log_limit_turn(struct log_limit *l, usec_t now);

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
