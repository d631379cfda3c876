/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What each thread of a process waits for, its sockets, and what it is beside: by /proc, copies of its
 * sockets and its memory. The process is never stopped, and no file system that it uses is asked. What
 * cannot be known is a wait of its own (WAIT_UNKNOWN), whose text says why.
 */
#include "control_group.h"
#include "lock_owner.h"
#include "sockets.h"

#define WAIT_TEXT_MAX   360u
#define WAITS_OF_THREAD 512u /* of one thread; what is more is left out */
#define WAITS_MAX       20000u

struct thread_wait {
        struct captured_wait w;   /* but for its text, */
        char text[WAIT_TEXT_MAX]; /* which is here */
};
struct waits_span {
        uint32_t first, n;
};
struct waits {
        struct thread_wait *items;
        struct waits_span *threads; /* one for each task, in the order of the list */
        struct sockets sockets;
        pid_t parent;
        uint32_t children_gone;
        uint64_t cpu_usec, start_ticks;
        size_t n, size, n_threads;
        bool cut; /* there are more */
};
void waits_clear(struct waits *w);

struct waits_of {
        const struct host *host;
        const struct process *process;
        const struct task_list *tasks;
        struct memory *memory; /* NULL: it is not read, and no lock has a holder */
        /* as struct lock_places */
        uint64_t runtime, runtime_end;
        const struct lock_thread *python;
        size_t n_python;
};

/* Into an empty struct. -ENOMEM; whatever else fails is said in a wait, or leaves out what it would
 * say. */
int waits_read(const struct waits_of *from, struct waits *ret);

/* Adds what those wait for that run, and whose call found nothing: in of their task is that call.
 * -ENOMEM. */
int waits_add_looks(const struct waits_of *from, struct waits *w);
