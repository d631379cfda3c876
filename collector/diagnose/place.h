/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What one thread waits for, and in which code. The kind comes from the capture's waits; of a capture that
 * has none, from the thread's state and the kernel function that it sleeps in. The code is the innermost
 * frame of the training's own. Names of frameworks only give a word ("all-reduce") for what people read.
 */
#include "host_capture.h"

/* What a run is held up by. The first are those of a captured wait (enum wait_kind). */
enum stall_kind {
        KIND_UNKNOWN = WAIT_UNKNOWN,
        KIND_CPU = _WAIT_KIND_MAX, /* it runs */
        KIND_CALL,                 /* it sleeps in a call that is not further known */
        KIND_ENDED,                /* its process has left the run */
        KIND_SILENT,               /* its host does not answer */
        KIND_PATH,                 /* packets are lost */
        KIND_CORE,                 /* its chips are in another state */
        KIND_STEP,                 /* its last step is behind */
        KIND_CHECK,                /* a check of its host fails */
        KIND_OWES,                 /* it received after it last sent: the others lack its data */
        _KIND_MAX,
};
const char *stall_kind_name(enum stall_kind k); /* "lock", … for JSON; those of a wait as there */

struct place {
        uint8_t kind;     /* enum stall_kind */
        bool deep;        /* uninterruptible (state D) */
        bool own;         /* frame is the training's own */
        bool meets;       /* word is something in which ranks meet: "in all-reduce"; else "for a queue" */
        const char *what; /* "read", "a lock", "sleep": constant, or of the table; "" */
        const char *word; /* "all-reduce"; constant, "" for none */
        uint32_t frame;   /* innermost of the training's own code; else innermost Python frame; else
                             STACK_NONE */
};

/* Of each stack of a table; of a stack without Python, native frames outside of libraries are its own. */
struct stack_code {
        uint32_t own, root; /* frames: innermost and outermost of the training's own; STACK_NONE */
        uint32_t innermost; /* Python frame; STACK_NONE */
        uint32_t own_path;  /* equal where all frames of its own are, and what native ones call */
        uint32_t behind;    /* equal where its own code calls the same of Python's libraries; 0: nothing */
};
/* -ENOMEM. The caller frees *ret. */
int stack_codes(const struct stack_table *t, struct stack_code **ret);

/* The place of a thread that is in state. */
struct place place_of(const struct stack_table *t, const struct stack_code *codes,
                      const struct host_capture *c, const struct captured_thread *thread, char state);
/* Its kind alone. */
uint8_t place_kind(const struct stack_table *t, const struct host_capture *c,
                   const struct captured_thread *thread, char state);

/* The library that waits: a string, the module of the innermost frame that is not the C library's or the
 * kernel's; STACK_NONE: that frame is Python's or its interpreter's, or of no module that is a library. */
uint32_t waiting_library(const struct stack_table *t, uint32_t stack);

/* It sleeps for something that another thread, process or machine has to do. */
bool kind_waits(uint8_t kind);

/* A frame of Python's library or an installed package: not of the training's own code. */
bool frame_is_library(const struct stack_table *t, const struct stack_frame *f);
/* The last part of a path; of a function's name: "Queue.get" → "get", "f.<locals>.g" → "g". */
const char *base_name(const char *path);
const char *last_part(const char *function);
