/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The lists and chains of the interpreter: interpreters → threads → frames. The lists change while they are
 * read and may be hostile: every one is bounded, and one that returns to itself is reported (-ELOOP). Names
 * and lines are not looked at here.
 */
#include "code.h"
#include "interpreter.h"
#include "memory.h"

#define WALK_INTERPRETERS_MAX 256u
#define WALK_THREADS_MAX 10000u
#define WALK_FRAMES_MAX 4096u         /* of one thread; the outermost ones are left out */
#define WALK_FRAMES_TOTAL_MAX 100000u /* of one process */

struct python_frame {
        uint64_t address, code_address;
        /* address of the code unit; to 3.10 its offset in bytes, -2 before the first */
        uint64_t instruction;
        bool of_generator;
        bool entry; /* called from C: the outermost one that one run of the interpreter loop has */
        uint64_t entry_at; /* something on the C stack that belongs to that run; 0: not known (to 3.11) */
        struct code *code; /* this and the next: set by the capture; owned by its cache */
        int line;                /* 0: unknown */
};

/* The frames of one thread, innermost first. */
struct chain {
        struct python_frame *frames;
        size_t n;
        bool cut;     /* there are more than were read */
        /* the innermost frame says that it does not run: it just begins or ends, or is none any more */
        bool resting;
};

void chain_clear(struct chain *c);
/*
 * The same calls at the same places; the innermost frame may be at another instruction, for that is what
 * running means.
 */
bool chain_equal(const struct chain *a, const struct chain *b);

struct thread_id {
        uint64_t state;       /* address of its PyThreadState */
        uint64_t interpreter; /* number, 0 is the main one */
        uint64_t pthread;     /* pthread_self() */
        uint64_t native;      /* gettid() at its birth; 0 when this version does not know */
        bool gil;             /* holds the lock of its interpreter */
};

struct thread_list {
        struct thread_id *items;
        size_t n;
        uint64_t main_thread; /* pthread_self() of the main thread */
};

void thread_list_clear(struct thread_list *l);

/*
 * All threads of all interpreters. -EBADMSG: a thread does not name the interpreter that it was found in;
 * -ELOOP, -E2BIG, -ENOMEM, or as memory_read(). Clear *ret.
 */
int walk_threads(struct memory *m, const struct interpreter *i, struct thread_list *ret);

/* A number that differs when the thread has moved on, whatever sense its frames make. Errors as
 * memory_read(). */
int walk_place(struct memory *m, const struct interpreter *i, uint64_t state, uint64_t *ret);

/*
 * Ask m for what walk_frames() will read first (memory_want()): where the innermost frame is, and, once that
 * is there, the frame and the page before it. For all threads one after the other this makes one call of
 * each step.
 */
int walk_want_place(struct memory *m, const struct interpreter *i, uint64_t state);
int walk_want_frames(struct memory *m, const struct interpreter *i, uint64_t state);

/* The frames of a thread, at most max. Errors as above. Clear *ret. */
int walk_frames(struct memory *m, const struct interpreter *i, uint64_t state, size_t max,
                struct chain *ret);
