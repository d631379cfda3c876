/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a thread is doing, by its frames, its state and what it waits in. The frames that mean waiting
 * are a table (waits.c) with the source of each; a training's own functions with a collective's name count,
 * too.
 */
#include "host_capture.h"

enum standing {
        STANDING_UNKNOWN,    /* nothing that counts as evidence */
        STANDING_COLLECTIVE, /* waits for the other ranks, or for the device on which they meet */
        STANDING_RUNS,
        STANDING_CALL,    /* in a system call or native function that does not return */
        STANDING_LOCK,    /* for a lock, or another thread not further known */
        STANDING_THREADS, /* for other threads or processes of the host: queue, event, join, future */
        STANDING_SLEEPS,
        STANDING_DISK,    /* uninterruptible (D) */
        STANDING_STOPPED, /* T, or t: by a tracer */
        STANDING_ENDED,   /* of a rank: its process has left the run */
        STANDING_SILENT,  /* of a host: no answer */
        _STANDING_MAX,
};
const char *standing_name(enum standing s); /* "collective", … for JSON */

struct place {
        enum standing standing;
        const char *what; /* "all-reduce", "a queue", "read": constant, or of the table; "" */
        uint32_t frame;   /* innermost frame of the training's own code; else innermost Python frame; else
                             STACK_NONE */
        bool own;         /* frame is the training's own */
};

/* A collective in which not everyone waits for everyone: whoever has given or got his part goes on, and may
 * already be in the next one. */
bool wait_is_one_way(const char *what);

/* The place of a thread that is in state. */
struct place place_of(const struct stack_table *t, const struct captured_thread *thread, char state);

/* A frame of Python's library or an installed package: not of the training's own code. */
bool frame_is_library(const struct stack_table *t, const struct stack_frame *f);
/* The process only serves another: a data loader's worker, a launcher that waits for its children. */
bool stack_is_helper(const struct stack_table *t, uint32_t stack);
/* The last part of a path. */
const char *base_name(const char *path);
