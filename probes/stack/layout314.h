/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * CPython 3.14 on x86-64, as tests/stack/derive.c prints it from the headers of that version;
 * test_layout.py compares.
 * What the interpreter says of itself (.debug: where in _Py_DebugOffsets) takes the place of what stands
 * here.
 */
#include "layout.h"

static const struct python_layout python_layout_314 = {
        .version = 0x030E,
        .lines = LINES_LOCATIONS,
        .runtime = {
                .interpreters = 808,
                .main_thread = 832,
                .gil_holder = LAYOUT_NONE,
        },
        .interpreter = {
                .next = 7272,
                .id = 7280,
                .threads = 7344,
                .gil = 16,
        },
        .gil = {
                .last_holder = 8,
                .locked = 16,
        },
        .thread = {
                .next = 8,
                .interpreter = 16,
                .thread_id = 152,
                .native_thread_id = 160,
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
                .executing = 0,
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
                .size = 760,
                .interpreters = 40,
                .interpreter_next = 64,
                .interpreter_id = 56,
                .interpreter_threads = 72,
                .interpreter_gil = 120,
                .thread_next = 192,
                .thread_interpreter = 200,
                .thread_frame = 208,
                .thread_id = 216,
                .native_thread_id = 224,
                .frame_code = 264,
                .frame_previous = 256,
                .frame_instruction = 272,
                .frame_owner = 288,
                .frame_size = 280,
                .code_filename = 320,
                .code_qualname = 336,
                .code_linetable = 344,
                .code_first_line = 352,
                .code_size = 384,
                .object_type = 408,
                .bytes_size = 600,
                .bytes_data = 608,
                .unicode_length = 632,
                .unicode_state = 624,
                .unicode_ascii_data = 640,
        },
};
