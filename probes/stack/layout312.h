/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * CPython 3.12 on x86-64, as tests/stack/derive.c prints it from the headers of that version;
 * test_layout.py compares.
 */
#include "layout.h"

static const struct python_layout python_layout_312 = {
        .version = 0x030C,
        .lines = LINES_LOCATIONS,
        .runtime = {
                .interpreters = 40,
                .main_thread = 64,
                .gil_holder = LAYOUT_NONE,
        },
        .interpreter = {
                .next = 0,
                .id = 8,
                .threads = 72,
                .gil = 384,
        },
        .gil = {
                .last_holder = 8,
                .locked = 16,
        },
        .thread = {
                .next = 8,
                .interpreter = 16,
                .thread_id = 136,
                .native_thread_id = 144,
                .cframe = 56,
                .frame = 0,
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
                .first_traceable = 176,
                .bytecode = LAYOUT_NONE,
                .size = 192,
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
};
