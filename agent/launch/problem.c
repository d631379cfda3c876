/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include <stdarg.h>

int problem_set(struct problem *p, int error, const char *remedy, const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(p->text, sizeof(p->text), fmt, ap);
        va_end(ap);
        (void) snprintf(p->remedy, sizeof(p->remedy), "%s", remedy);
        return error;
}

/* The length of the word of ours that begins here; 0: there is none. */
static size_t placeholder(const char *at, const char *word) {
        size_t n = strlen(word);

        return strncmp(at, word, n) == 0 ? n : 0;
}

void remedy_fill(char *remedy, size_t size, const char *name, pid_t pid) {
        char filled[512], number[16];
        size_t n = 0;

        (void) snprintf(number, sizeof(number), "%d", (int) pid);
        for (const char *at = remedy; *at && n + 1 < sizeof(filled);) {
                size_t is_name = placeholder(at, "NAME"), is_pid = pid > 0 ? placeholder(at, "PID") : 0;

                if (is_name + is_pid == 0)
                        filled[n++] = *at++;
                else {
                        n += (size_t) snprintf(filled + n, sizeof(filled) - n, "%s", is_name ? name : number);
                        at += is_name + is_pid;
                }
        }
        filled[MIN(n, sizeof(filled) - 1)] = '\0';
        (void) snprintf(remedy, size, "%s", filled);
}

int problem_fill(struct problem *p, int error, const char *name, pid_t pid) {
        remedy_fill(p->remedy, sizeof(p->remedy), name, pid);
        return error;
}
