/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "walk.h"

int walk_fail(struct walk *w, int r, const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(w->result->why, sizeof(w->result->why), fmt, ap);
        va_end(ap);
        return r;
}

void walk_reject(struct walk *w, const char *name, const char *reason) {
        w->result->rejected++;
        (void) walk_fail(w, 0, "%.80s: %s", name, reason);
}
