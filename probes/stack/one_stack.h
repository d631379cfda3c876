/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A thread's kernel, native and Python frames as one stack, innermost first: the Python frames of one run of
 * the interpreter loop stand where the native frame of that run is.
 */
#include "capture.h"

enum joined_kind {
        JOINED_KERNEL,
        JOINED_NATIVE,
        JOINED_PYTHON,
};

struct joined_frame {
        enum joined_kind kind;
        const char *kernel; /* "pipe_read+0x366/0x410", not ended by NUL */
        size_t kernel_len;
        const struct native_frame *native;
        const struct frame *python;
        const struct frame_locals *locals; /* of a Python frame; NULL: not read */
};

/*
 * Whether each run of the interpreter loop in the native stack has its Python frames, of the same moment. A run
 * is told by what it has on the C stack, where the interpreter says that (from 3.12 on), else by the name of
 * its function.
 */
bool stack_joins(const struct native_thread *n, const struct python_thread *t);

/*
 * Calls visit for every frame of n (NULL: none) and t (NULL: none); when both are there, they join. Frames
 * that are not shown are left out. Returns what visit returned when not 0.
 */
int stack_walk(const struct native_thread *n, const struct python_thread *t,
               int (*visit)(const struct joined_frame *f, void *userdata), void *userdata);

/* Why a thread has no native frames, in words. */
const char *native_error(int error);
