/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "log.h"

static struct {
        const char *program;
        int level;
        bool (*sink)(int priority, int error, const char *line);
        struct log_limit *limit;
} state = { .program = "tpu-hostd", .level = LOG_INFO };

void log_open(const char *program) {
        state.program = program;
}

void log_set_level(int level) {
        state.level = level;
}

void log_set_sink(bool (*sink)(int priority, int error, const char *line)) {
        state.sink = sink;
}

/* --- The limit ---------------------------------------------------------------------------------------- */

void log_set_limit(struct log_limit *l) {
        state.limit = l;
}

/* What is no warning leaves room for some that are. */
static bool limit_has_room(const struct log_limit *l, int priority) {
        unsigned spare = priority > LOG_WARNING ? LOG_LIMIT_GRAVE : 0;
        usec_t oldest = l->written[(l->next + spare) % LOG_LIMIT];

        return oldest == 0 || l->now >= oldest + LOG_LIMIT_TIME;
}

static bool limit_takes(struct log_limit *l, int priority) {
        if (!limit_has_room(l, priority)) {
                l->unwritten++;
                return false;
        }
        l->written[l->next] = l->now;
        l->next = (l->next + 1) % LOG_LIMIT;
        return true;
}

void log_limit_turn(struct log_limit *l, usec_t now) {
        unsigned n = l->unwritten;

        l->now = MAX(now, 1U);
        if (n == 0 || !limit_has_room(l, LOG_NOTICE))
                return;
        l->unwritten = 0;
        log_notice("%u more lines were not written: at most %d are within %d s", n, LOG_LIMIT,
                   (int) (LOG_LIMIT_TIME / USEC_PER_SEC));
}

int log_full(int priority, int error, const char *fmt, ...) {
        char line[LOG_LINE_MAX];
        va_list ap;

        error = abs(error);
        if (priority > state.level)
                return -error;
        if (state.limit && priority < LOG_DEBUG && !limit_takes(state.limit, priority))
                return -error;
        errno = error; /* for %m */
        va_start(ap, fmt);
        (void) vsnprintf(line, sizeof(line), fmt, ap);
        va_end(ap);
        if (!state.sink || !state.sink(priority, error, line))
                (void) fprintf(stderr, "%s: %s\n", state.program, line);
        return -error;
}
