/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "ctl.h"
#include "problem.h"
#include "table.h"

int problem_set(struct problem *p, int error, const char *remedy, const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(p->text, sizeof(p->text), fmt, ap);
        va_end(ap);
        (void) snprintf(p->remedy, sizeof(p->remedy), "%s", remedy ? remedy : "");
        return error;
}

int problem_complain(const struct problem *p) {
        fputs("tpuctl: ", stderr);
        print_clean(stderr, p->text, false);
        if (p->remedy[0]) {
                fputs("\nto do:  ", stderr);
                print_clean(stderr, p->remedy, false);
        }
        fputc('\n', stderr);
        return p->no_answer ? EXIT_NO_ANSWER : EXIT_REFUSED;
}
