/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One thing that may block (a name to look up, a file to make durable) or takes long, in a process of its
 * own, so that the loop does not wait for it: a function in a forked process, or another program. What it
 * writes comes back when it ends; at its time limit, or when it writes too much, it is killed. A child that
 * cannot be killed (state D) is left alone. done is then not called, so that a caller who starts one at a
 * time never has two of them; for a caller who counts them (there), or wants to know (stuck_too), it is
 * called at the limit all the same.
 *
 * A forked child shares no descriptor with its parent but the pipe (a lock of ours must not outlive us).
 */
#include <systemd/sd-event.h>

#include "processes.h"

#define CHILD_ANSWER_MAX 4096 /* fits into a pipe, so that the child never waits for us to read */

struct child_work {
        const char *name; /* of the event source; static */
        usec_t timeout;   /* 0: none */
        /*
         * In the child: returns 0 or -errno, which done is given. May allocate, unless the program has
         * threads; leaves by returning. fd: what is written into it is the answer, cut at CHILD_ANSWER_MAX
         * unless max is given.
         */
        int (*run)(int fd, const void *data);
        const void *data;
        /* Instead of run: the answer is its standard output, and a failure of it is -EIO. */
        const struct spawn_options *program;
        size_t max;    /* of a program's answer, or of a long one of run; more is -E2BIG */
        bool outlives; /* it ends its work, also when we end or free it; else it dies with us */
        /* NULL, or how many processes there are: also those that child_free() could not end at once, for
         * which it does not wait. It stays valid as long as the loop runs. */
        unsigned *there;
        bool stuck_too; /* done is called at the limit, too, and once more when it is gone after all */
        /* In the parent. result: what run returned, -ETIMEDOUT, or -EIO when it crashed. answer:
         * NUL-terminated, and there until done returns, also behind child_free(). */
        void (*done)(int result, const char *answer, size_t len, void *userdata);
        void *userdata;
};

struct child;
/* *ret is cleared by child_free() only, which done may call. -EAGAIN, -ENOMEM, … when none can be made. */
int child_start(sd_event *e, const struct child_work *w, struct child **ret);
/* In done: it could not be killed, and is not gone. */
bool child_is_there(const struct child *c);
/* Kills it if it still runs, unless it outlives us; done is not called. */
struct child *child_free(struct child *c);
DEFINE_CLEANUP(struct child *, child_free)
