/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "log.h"

static struct {
        const char *program;
        int level;
        bool (*sink)(int priority, int error, const char *line);
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

int log_full(int priority, int error, const char *fmt, ...) {
        char line[LOG_LINE_MAX];
        va_list ap;

        error = abs(error);
        if (priority > state.level)
                return -error;
        errno = error; /* for %m */
        va_start(ap, fmt);
        (void) vsnprintf(line, sizeof(line), fmt, ap);
        va_end(ap);
        if (!state.sink || !state.sink(priority, error, line))
                (void) fprintf(stderr, "%s: %s\n", state.program, line);
        return -error;
}
