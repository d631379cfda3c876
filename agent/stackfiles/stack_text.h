/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Stacks that Python's faulthandler wrote into a file, as cloud-tpu-diagnostics has it do it. Pure; the text
 * is anybody's. What is taken are the lines of faulthandler alone, so that nothing else of a file is ever
 * shown.
 *
 * The form: CPython, Python/traceback.c (dump_traceback, _Py_DumpTracebackThreads, _Py_DumpStack) and
 * Modules/faulthandler.c, 3.8 to 3.14; the line "INFO: Not a crash." is cloud_tpu_diagnostics'
 * stack_trace.py (github.com/google/cloud-tpu-monitoring-debugging). It and its stack are written past each
 * other: it may stand in front of the stack or behind it, and counts for nothing.
 */
#include "base.h"

#define STACK_TEXT_BYTES_MAX (64 * 1024) /* of a snapshot; what is longer is cut */
#define STACK_TEXT_THREADS_MAX 1024
#define STACK_TEXT_REASON_MAX 96

enum stack_text_kind {
        STACK_TEXT_SNAPSHOT, /* of a program that goes on */
        STACK_TEXT_TIMEOUT,  /* dump_traceback_later() */
        STACK_TEXT_CRASH,    /* "Fatal Python error" */
        _STACK_TEXT_KIND_MAX,
};
const char *stack_text_kind_name(enum stack_text_kind k); /* "snapshot", … */

struct stack_text {
        enum stack_text_kind kind;
        char reason[STACK_TEXT_REASON_MAX]; /* of a crash: "Segmentation fault" */
        unsigned threads, frames;
        uint64_t hash; /* of what it shows, without the threads' addresses: the same stacks have the same */
        bool cut;
        size_t len;
        char text[STACK_TEXT_BYTES_MAX]; /* NUL-terminated UTF-8, ends with a newline */
};

/*
 * The next snapshot of a file's text from *at on, which is moved behind what was dealt with. end: nothing
 * comes behind data for now, so that a last snapshot is whole. Returns 1 with *ret (whose content is spoilt
 * otherwise), 0: no whole one; what is left from *at is to be offered again with more.
 */
int stack_text_next(const char *data, size_t len, bool end, size_t *at, struct stack_text *ret);

/*
 * Which snapshots were reported already, by a key of 64 bits: the last STACK_SEEN_MAX of them, over restarts
 * of the agent. Losing it costs repeats, no more. Kept in a state file (state_file.h): the keys, the oldest
 * first.
 */
#define STACK_SEEN_MAX 1024

struct stack_seen {
        uint64_t keys[STACK_SEEN_MAX];
        size_t n, next; /* next: where the one goes that takes the oldest one's place */
};

bool stack_seen_has(const struct stack_seen *s, uint64_t key);
void stack_seen_add(struct stack_seen *s, uint64_t key);
/* -ENOENT: there is none that can be used; -errno. *s is empty then. */
int stack_seen_load(const char *path, struct stack_seen *s);
int stack_seen_save(const char *path, const struct stack_seen *s);
