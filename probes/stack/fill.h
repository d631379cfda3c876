/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What was read of a process, as the form in which captures are shown and travel (host_capture.h). A
 * thread's kernel, native and Python frames become one stack; where they do not join, the native ones come
 * first.
 */
#include "capture.h"
#include "capture_write.h"
#include "ends.h"

struct fill {
        struct host_capture *c; /* detailed */
        struct stack_table *t;
        struct capture_writer *writer; /* whose c and t those are; NULL: they are to be shown */
        uint32_t frames[STACK_FRAMES_MAX]; /* of one stack, innermost first */
        size_t n;
        bool cut; /* of that stack */
};

/* A process that was read. -ENOMEM. */
int fill_process(struct fill *f, const struct capture *from);
/* Who has the other ends, behind all processes. */
int fill_ends(struct fill *f, const struct ends *from);
/* One that could not be read. */
int fill_failure(struct fill *f, pid_t pid, const char *command, const char *why);
