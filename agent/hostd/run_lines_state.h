/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How far the lines of runs were read from the journal, and how they are numbered. A part is what one start of a
 * run's unit prints (its invocation id, of systemd); its lines count from 1, and a line keeps its number when it is
 * read again. The file outlives a kill of the process, not a power cut: an older one then says the same numbers for
 * the same lines once more.
 *
 * A state file (state_file.h): {"cursor": "…", "parts": [{"run": "…", "invocation": "…", "number": 7}, …]}.
 */
#include "base.h"

#define RUN_LINES_PARTS_MAX 64
#define RUN_LINES_CURSOR_MAX 256
#define RUN_LINES_HEAD "head" /* instead of a cursor: nothing of runs was in the journal */

struct run_lines_part {
        char run[64], invocation[33];
        uint64_t number; /* of the last line */
        uint64_t used;   /* when, in lines of all parts: the longest unused goes first */
};

struct run_lines_state {
        char cursor[RUN_LINES_CURSOR_MAX]; /* of the last entry that was read; empty: not known */
        struct run_lines_part parts[RUN_LINES_PARTS_MAX];
        size_t n;
        uint64_t clock; /* of used */
};

/* The part, made with number 0 when it is new, in the place of the longest unused one if there is no other. */
struct run_lines_part *run_lines_part(struct run_lines_state *s, const char *run, const char *invocation);

/* -ENOENT: there is none, or it was set aside; -EBADMSG: not one of ours. *s is empty then. */
int run_lines_load(const char *path, struct run_lines_state *s);
int run_lines_save(const char *path, const struct run_lines_state *s);
