/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * CPython 3.13 on x86-64, as tests/stack/derive.c prints it from the headers of that version;
 * test_layout.py compares.
 * What the interpreter says of itself (.debug: where in _Py_DebugOffsets) takes the place of what stands
 * here.
 */
#include "layout.h"

static const struct python_layout python_layout_313 = {
        .version = 0x030D,
        .lines = LINES_LOCATIONS,
        .runtime = {
                .interpreters = 632,
                .main_thread = 656,
                .gil_holder = LAYOUT_NONE,
        },
        .interpreter = {
                .next = 7264,
                .id = 7272,
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
                .is_entry = LAYOUT_NONE,
                .owned_by_c = 3,
                .state = LAYOUT_NONE,
                .owner = 70,
                .size = 72,
                .locals = 72,
                .generator_state = 5,
                .owned_by_generator = 1,
                .executing = 0,
        },
        .code = {
                .filename = 112,
                .qualname = 128,
                .linetable = 136,
                .first_line = 68,
                .first_traceable = 184,
                .bytecode = LAYOUT_NONE,
                .size = 200,
                .local_names = 96,
        },
        .object = {
                .type = 8,
                .var_size = 16,
                .bytes_data = 32,
                .tuple_items = 24,
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
                .size = 584,
                .interpreters = 40,
                .interpreter_next = 64,
                .interpreter_id = 56,
                .interpreter_threads = 72,
                .interpreter_gil = 112,
                .thread_next = 168,
                .thread_interpreter = 176,
                .thread_frame = 184,
                .thread_id = 192,
                .native_thread_id = 200,
                .frame_code = 240,
                .frame_previous = 232,
                .frame_instruction = 248,
                .frame_owner = 264,
                .frame_size = 256,
                .code_filename = 280,
                .code_qualname = 296,
                .code_linetable = 304,
                .code_first_line = 312,
                .code_size = 344,
                .object_type = 360,
                .bytes_size = 520,
                .bytes_data = 528,
                .unicode_length = 552,
                .unicode_state = 544,
                .unicode_ascii_data = 560,
                .code_local_names = 328,
                .tuple_items = 408,
        },
};
