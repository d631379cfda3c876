/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * CPython 3.11. Each number is offsetof() in the public headers of 3.11 (Include/internal/pycore_runtime.h,
 * pycore_interp.h, pycore_frame.h, Include/cpython/pystate.h, code.h, unicodeobject.h) on x86-64 without
 * Py_TRACE_REFS; tests/stack/derive311.c computes them again from installed headers and compares.
 */
#include "layout.h"

static const struct python_layout python_layout_311 = {
        .version = 0x030B,
        .runtime = {
                .interpreters = 40, /* _PyRuntimeState.interpreters.head */
                .main_thread = 80,
                .gil_holder = 576, /* .gilstate.tstate_current: NULL while nobody holds the GIL */
                .size = 584,       /* what is read of it */
        },
        .interpreter = {
                .next = 0,
                .threads = 16, /* .threads.head, newest first */
                .id = 48,
                .size = 56,
        },
        .thread = {
                .next = 8,
                .cframe = 56,
                .thread_id = 152, /* pthread_self() */
                .native_thread_id = 160, /* gettid() in its own namespace; stale after fork() */
                .size = 168,
        },
        .cframe = {
                .current_frame = 8,
        },
        .frame = {
                .code = 32,
                .previous = 48,
                .instruction = 56, /* prev_instr: the code unit before the next instruction */
                .stack_top = 64, /* int: negative while the frame itself executes */
                .is_entry = 68,  /* called from C, not by the frame before it */
                .owner = 69,
                .size = 72,                /* up to localsplus */
                .generator_state = 5, /* PyGenObject.gi_iframe - gi_frame_state */
                .owned_by_generator = 1,   /* FRAME_OWNED_BY_GENERATOR */
                .executing = 0,            /* FRAME_EXECUTING */
        },
        .code = {
                .filename = 112,
                .qualname = 128,
                .linetable = 136,
                .first_line = 72,
                .first_traceable = 168, /* in code units: before it a frame is incomplete */
                .size = 184,            /* co_code_adaptive */
        },
        .object = {
                .type = 8,
                .var_size = 16,
                .bytes_data = 32,
        },
        .unicode = {
                .length = 16,
                .state = 32,
                .ascii_data = 48,   /* sizeof(PyASCIIObject) */
                .compact_data = 72, /* sizeof(PyCompactUnicodeObject) */
                .data_pointer = 72, /* PyUnicodeObject.data.any */
                .kind_shift = 2,    /* interned:2, kind:3, compact:1, ascii:1, ready:1 */
                .compact_bit = 5,
                .ascii_bit = 6,
        },
};
