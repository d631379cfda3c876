/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The native stacks of all threads of one process: each is stopped for its own copy only (seize.h), and
 * unwound when it runs again (unwind.h).
 */
#include "task_stacks.h"
#include "unwind.h"

#define NATIVE_BATCH 256u /* threads whose copies are kept at a time: 16 MiB */
#define NATIVE_KERNEL_MAX 4096 /* bytes of one kernel stack as text */

struct native_thread {
        pid_t tid;                   /* as /proc numbers it */
        struct native_frame *frames; /* innermost first */
        size_t n;
        bool cut;  /* there are more, or the tables to find them are missing */
        int error; /* why there are none: -EBUSY it waits uninterruptibly, -EPERM, -ESRCH, -EBADMSG */
        uint64_t pause_ns; /* how long it was stopped */
        /* of one that ran: the call that it came back from with nothing, as one does that spins; number
         * CALL_RUNNING: none */
        struct task_call looked;
        char *kernel;      /* its kernel stack, "func+0x1/0x2" a line; NULL: not permitted, or none */
};

struct native {
        struct unwinder *unwinder;     /* owns the names */
        bool kernel_by_proc;           /* /proc/TID/stack could be read */
        struct native_thread *threads; /* in the order of the tasks */
        size_t n;
        bool held; /* a thread may stop for us yet, and only our own end lets it go then: end soon */
};

void native_clear(struct native *n);

/*
 * *ret is empty before; clear it in any case. Errors as unwinder_new(). kernel: the kernel's stacks and the
 * registers of those that do not run, taken just now; NULL: not to be had, then /proc/TID/stack is tried,
 * which takes CAP_SYS_ADMIN.
 */
int native_capture(const struct process *p, struct memory *m, const struct task_list *tasks,
                   const struct task_stack_list *kernel, struct native *ret);

/* The same out of the registers that a core has: one for each task, in their order. */
int native_capture_core(const struct process *p, struct memory *m, const struct task_list *tasks,
                        struct native *ret);

/* How many of the frames are the function that runs Python frames. */
size_t native_evaluations(const struct native_thread *t);
