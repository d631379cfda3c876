/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * CPython 3.15 on x86-64, as tests/stack/derive.c prints it from the headers of that version;
 * test_layout.py compares.
 * What the interpreter says of itself (.debug: where in _Py_DebugOffsets) takes the place of what stands
 * here.
 */
#include "layout.h"

static const struct python_layout python_layout_315 = {
        .version = 0x030F,
        .lines = LINES_LOCATIONS,
        .runtime = {
                .interpreters = 936,
                .main_thread = 960,
                .gil_holder = LAYOUT_NONE,
        },
        .interpreter = {
                .next = 7264,
                .id = 7272,
                .threads = 7336,
                .gil = 16,
        },
        .gil = {
                .last_holder = 8,
                .locked = 16,
        },
        .thread = {
                .next = 8,
                .interpreter = 16,
                .thread_id = 176,
                .native_thread_id = 184,
                .cframe = LAYOUT_NONE,
                .frame = 72,
        },
        .frame = {
                .code = 0,
                .instruction = 56,
                .previous = 8,
                .stack_top = 64,
                .stack_top_is_pointer = 1,
                .tag = 7,
                .is_entry = LAYOUT_NONE,
                .owned_by_c = 3,
                .state = LAYOUT_NONE,
                .owner = 74,
                .size = 80,
                .generator_state = 5,
                .owned_by_generator = 1,
                .executing = 4,
        },
        .code = {
                .filename = 112,
                .qualname = 128,
                .linetable = 136,
                .first_line = 68,
                .first_traceable = 192,
                .bytecode = LAYOUT_NONE,
                .size = 208,
        },
        .object = {
                .type = 8,
                .var_size = 16,
                .bytes_data = 32,
        },
        .unicode = {
                .length = 16,
                .state = 32,
                .ascii_data = 40,
                .compact_data = 56,
                .data_pointer = 56,
                .kind_shift = 2,
                .compact_bit = 5,
                .ascii_bit = 6,
        },
        .debug = {
                .size = 888,
                .interpreters = 40,
                .interpreter_next = 64,
                .interpreter_id = 56,
                .interpreter_threads = 72,
                .interpreter_gil = 120,
                .thread_next = 192,
                .thread_interpreter = 200,
                .thread_frame = 208,
                .thread_id = 240,
                .native_thread_id = 248,
                .frame_code = 328,
                .frame_previous = 320,
                .frame_instruction = 336,
                .frame_owner = 352,
                .frame_size = 344,
                .code_filename = 384,
                .code_qualname = 400,
                .code_linetable = 408,
                .code_first_line = 416,
                .code_size = 448,
                .object_type = 472,
                .bytes_size = 696,
                .bytes_data = 704,
                .unicode_length = 728,
                .unicode_state = 720,
                .unicode_ascii_data = 736,
        },
};
