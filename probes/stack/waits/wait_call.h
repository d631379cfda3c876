/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a system call waits for, by its number and arguments alone (x86-64, Linux): pure. What its pointers
 * point to is for others to read.
 */
#include "process.h"

enum call_kind {
        CALL_OTHER, /* it waits for something that this table does not know */
        CALL_FD,    /* one or two descriptors */
        CALL_PATH,  /* a path in memory */
        CALL_LOCKS_FILE,
        CALL_POLL,   /* an array of struct pollfd */
        CALL_SELECT, /* up to three sets of bits */
        CALL_EPOLL,
        CALL_FUTEX,
        CALL_FUTEXES, /* an array of struct futex_waitv */
        CALL_CHILD,
        CALL_SLEEP,
        CALL_SIGNAL,
        CALL_IO, /* io_uring, Linux AIO */
};

struct call_wait {
        enum call_kind kind;
        bool writes, limited;
        uint32_t fd, fd_in; /* WAIT_FD_NONE */
        uint64_t address;   /* of a path, an array, a futex; of a set those for reading, */
        uint64_t write_set; /* and those for writing */
        uint64_t n;         /* items of the array, bits of a set */
        uint32_t value;     /* that the futex had; the operation without its flags */
        unsigned operation;
        bool shared;   /* the futex may be another process's, too */
        int32_t child; /* pid as the process numbers it; 0: any, or one of a group */
};

/* wchan: the kernel function in which it waits, which tells what a call that was interrupted goes on with.
 */
void call_wait_of(const struct task_call *c, const char *wchan, struct call_wait *ret);
/* Whether a call that came back with result says that there is nothing yet: no descriptor is ready, or the
 * one that it asks would have to be waited for. Who calls so and runs on looks again and again. */
bool call_found_nothing(const struct task_call *c, int64_t result);
