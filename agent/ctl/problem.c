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

/* What others say may have several lines: one line here, so that "to do" stays the second. */
static void print_one_line(const char *text) {
        char line[sizeof(((struct problem *) NULL)->text)];

        for (size_t n; *text; text += n) {
                n = strcspn(text, "\n");
                (void) snprintf(line, sizeof(line), "%.*s", (int) n, text);
                print_clean(stderr, line, false);
                n += text[n] == '\n';
                if (text[n])
                        fputs("; ", stderr);
        }
}

int problem_complain(const struct problem *p) {
        fputs("tpuctl: ", stderr);
        print_one_line(p->text);
        if (p->remedy[0]) {
                fputs("\nto do:  ", stderr);
                print_clean(stderr, p->remedy, false);
        }
        fputc('\n', stderr);
        return p->no_answer || p->elsewhere ? EXIT_NO_ANSWER : EXIT_REFUSED;
}
