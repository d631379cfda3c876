/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * CPython 3.8 on x86-64, as tests/stack/derive.c prints it from the headers of that version;
 * test_layout.py compares.
 */
#include "layout.h"

static const struct python_layout python_layout_308 = {
        .version = 0x0308,
        .lines = LINES_LNOTAB,
        .runtime = {
                .interpreters = 32,
                .main_thread = 72,
                .gil_holder = 1368,
        },
        .interpreter = {
                .next = 0,
                .id = 16,
                .threads = 8,
                .gil = LAYOUT_NONE,
        },
        .thread = {
                .next = 8,
                .interpreter = 16,
                .thread_id = 176,
                .native_thread_id = LAYOUT_NONE,
                .cframe = LAYOUT_NONE,
                .frame = 24,
                .tracing = 44,
        },
        .frame = {
                .code = 32,
                .previous = 24,
                .instruction = 104,
                .instruction_size = 1,
                .stack_top = LAYOUT_NONE,
                .is_entry = LAYOUT_NONE,
                .owner = LAYOUT_NONE,
                .state = 116,
                .executing = 1,
                .unwinding = 1,
                .size = 120,
                .locals = 360,
        },
        .code = {
                .filename = 104,
                .qualname = 112,
                .linetable = 120,
                .first_line = 40,
                .first_traceable = LAYOUT_NONE,
                .bytecode = 48,
                .size = 176,
                .local_names = 72,
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
