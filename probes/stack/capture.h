/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * All Python stacks of one process, read while it runs. Every thread is read twice, with its names looked up
 * in between so that what they belong to existed throughout; a thread that did not hold the GIL and reads
 * the same both times is accepted. The others are read again from pages copied twice by one call, some
 * microseconds apart, up to CAPTURE_RETRIES times, and marked as changed when no two copies agree.
 */
#include "interpreter.h"
#include "native.h"
#include "process.h"
#include "thread_walk.h"
#include "waits.h"

#define CAPTURE_RETRIES 16u /* each takes some 20 µs */
#define CAPTURE_TRIES 20u   /* while no reading made sense, before a thread counts as not readable */

struct python_thread {
        struct thread_id id;
        const struct task *task; /* what the kernel says of it; NULL: no thread has that number */
        size_t limit;            /* frames that could be read of it */
        struct chain chain;      /* frames whose code could not be read have code NULL */
        bool gil;                /* held the GIL in both readings */
        bool may_run;            /* held it in one of them */
        bool changed;            /* no two readings were equal: the chain may be one the program never had */
        bool drifted;            /* its native stack is of another moment */
        bool noted, moves;       /* seen at two places */
        uint64_t place;
        int error; /* 0, or -errno why it could not be read: the chain is empty */
};

struct capture {
        struct process process;
        struct process_stat stat; /* as it was found */
        bool python_found;        /* it can be read again without looking for the interpreter */
        char command[PROCESS_COMMAND_MAX];
        bool with_native; /* wanted: set before capture_process() */
        /* the same: why no Python or native frames are to be read of it; NULL: they are */
        const char *without_python, *without_native;
        /* the same: of its memory only what frames take is read, and no lock is looked at */
        bool without_locks;
        /* borrowed, set before, too; NULL: not to be had, task_stacks_why says why */
        struct task_stacks *task_stacks;
        const char *task_stacks_why;
        char kernel_why[TASK_STACKS_WHY_MAX]; /* why the kernel's or all native ones are not known */
        bool no_python;   /* only native stacks are there */
        char no_python_why[REASON_MAX];
        int no_python_error;  /* -ENOENT: it has none; else what failed */
        struct waits waits;
        struct native native; /* empty when it was not wanted */
        struct interpreter interpreter;
        pid_t memory_pid;     /* the source's pid lives here */
        struct memory memory; /* for lists and frames, which move */
        struct memory names;  /* for code objects and names, which stay: the same target */
        /* the same for threads that are read again and again, and for all that is read just once */
        struct memory moving, moving_names;
        struct code_cache codes;
        struct task_list tasks;
        struct python_thread *threads; /* oldest first: the main thread comes first */
        size_t n_threads;
        size_t other_threads; /* threads of the process that Python does not know */
        size_t frames;        /* of all threads */
        uint64_t main_thread; /* pthread_self() of the main thread */
};
#define CAPTURE_NULL ((struct capture) { .process = PROCESS_NULL })

/*
 * Captures pid into *c: empty before but for what is marked so above, or that of an earlier capture, which
 * makes it quicker; everything in it is read anew. tasks.keep may be set, too. 0, or -errno with why for
 * people. Clear with capture_clear() in both cases.
 */
int capture_process(const struct host *h, pid_t pid, struct capture *c, char why[static REASON_MAX]);

/*
 * The same of what a core file has, which is borrowed until *c is cleared: Python's threads and, where
 * wanted, native frames. The thread that crashed comes first of those that run Python. Nothing is known of
 * what a thread waited for.
 */
int capture_core(struct core_file *core, struct capture *c, char why[static REASON_MAX]);
/* Which of the tasks each thread of Python is. */
void capture_join_tasks(struct capture *c);

/* Sets up the memories of an empty capture. */
void capture_init(struct capture *c, struct memory_source source);
/*
 * The part that needs no /proc: after capture_init(), with c->interpreter set. For tests on memory images,
 * too.
 */
int capture_stacks(struct capture *c);
/* Frees what it found. */
void capture_drop_stacks(struct capture *c);

void capture_clear(struct capture *c);
#define _cleanup_capture_ _cleanup_(capture_clear)

/* The native stack of a thread; NULL: none was taken. */
const struct native_thread *capture_native(const struct capture *c, pid_t tid);

/* Whether it is one of the threads that run Python. */
bool capture_runs_python(const struct capture *c, const struct task *task);

/* Whether a frame is shown: a frame whose function has not begun is not there yet for Python itself. */
bool frame_is_shown(const struct python_frame *f);
