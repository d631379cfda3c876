/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Local variables of Python frames, in words: numbers, None, the beginning of a string, of everything else
 * its type and how many items it has. Only read, nothing of the target is called. Strings of a variable
 * whose name looks like a secret (texts.h) and bytes are never shown. Values change while a thread runs:
 * only those of a thread whose frames are the same before and after are kept.
 */
#include "interpreter.h"
#include "thread_walk.h"

#define LOCALS_MAX 64u        /* of one frame; the others are left out */
#define LOCALS_FRAMES_MAX 32u /* the innermost frames of a thread that have theirs read */
#define LOCAL_NAME_MAX 64u
#define LOCAL_VALUE_MAX 128u /* bytes with NUL */

struct local {
        char name[LOCAL_NAME_MAX], value[LOCAL_VALUE_MAX]; /* UTF-8 */
};

/* Those of a frame in the order of its code; what has no value is left out. */
struct frame_locals {
        struct local *items;
        size_t n;
};

void frame_locals_clear(struct frame_locals *l);

/* Errors as memory_read(), -EBADMSG; *ret is empty then. */
int locals_read(struct memory *m, const struct interpreter *i, const struct python_frame *f,
                struct frame_locals *ret);
