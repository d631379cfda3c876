/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * CPython 3.11 on x86-64, as tests/stack/derive.c prints it from the headers of that version;
 * test_layout.py compares.
 */
#include "layout.h"

static const struct python_layout python_layout_311 = {
        .version = 0x030B,
        .lines = LINES_LOCATIONS,
        .runtime = {
                .interpreters = 40,
                .main_thread = 80,
                .gil_holder = 576,
        },
        .interpreter = {
                .next = 0,
                .id = 48,
                .threads = 16,
                .gil = LAYOUT_NONE,
        },
        .thread = {
                .next = 8,
                .interpreter = 16,
                .thread_id = 152,
                .native_thread_id = 160,
                .cframe = 56,
                .frame = 8,
        },
        .frame = {
                .code = 32,
                .instruction = 56,
                .previous = 48,
                .stack_top = 64,
                .is_entry = 68,
                .state = LAYOUT_NONE,
                .owner = 69,
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
                .first_line = 72,
                .first_traceable = 168,
                .bytecode = LAYOUT_NONE,
                .size = 184,
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
                .ascii_data = 48,
                .compact_data = 72,
                .data_pointer = 72,
                .kind_shift = 2,
                .compact_bit = 5,
                .ascii_bit = 6,
        },
};
