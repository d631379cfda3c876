/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include <assert.h>
#include <stdarg.h>

#include "texts.h"

int problem_set(struct problem *p, int error, const char *remedy, const char *fmt, ...) {
        va_list ap;

        assert(error <= 0);
        va_start(ap, fmt);
        (void) vsnprintf(p->text, sizeof(p->text), fmt, ap);
        va_end(ap);
        (void) snprintf(p->remedy, sizeof(p->remedy), "%s", remedy ? remedy : "");
        return error;
}

int problem_no_memory(struct problem *p) {
        return problem_set(p, -ENOMEM, "try again; see tpuctl check", "out of memory");
}

void remedy_fill(char *remedy, size_t size, const char *name, pid_t pid) {
        char number[16];

        (void) snprintf(number, sizeof(number), "%d", (int) pid);
        placeholder_fill(remedy, size, "NAME", name);
        if (pid > 0)
                placeholder_fill(remedy, size, "PID", number);
}

int problem_fill(struct problem *p, int error, const char *name, pid_t pid) {
        remedy_fill(p->remedy, sizeof(p->remedy), name, pid);
        return error;
}
