/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where CPython keeps what a stack is made of: byte offsets, one row a minor version. Offsets are no part of
 * Python's stable interface; they are the same through all releases of one minor version from its release
 * candidate on. A version without a row is refused, never guessed.
 */
#include "base.h"

struct python_layout {
        uint32_t version; /* major << 8 | minor */

        struct { /* _PyRuntimeState */
                uint32_t interpreters, main_thread, gil_holder, size;
        } runtime;
        struct { /* PyInterpreterState */
                uint32_t next, threads, id, size;
        } interpreter;
        struct { /* PyThreadState */
                uint32_t next, cframe, thread_id, native_thread_id, size;
        } thread;
        struct { /* _PyCFrame */
                uint32_t current_frame;
        } cframe;
        struct { /* _PyInterpreterFrame */
                uint32_t code, previous, instruction, stack_top, is_entry, owner, size;
                uint32_t generator_state; /* of a generator's frame: how many bytes before it is
                                             gi_frame_state */
                uint8_t owned_by_generator, executing;
        } frame;
        struct { /* PyCodeObject; size: up to the first instruction */
                uint32_t filename, qualname, linetable, first_line, first_traceable, size;
        } code;
        struct { /* PyObject, PyVarObject, PyBytesObject */
                uint32_t type, var_size, bytes_data;
        } object;
        struct { /* PyASCIIObject, PyCompactUnicodeObject, PyUnicodeObject */
                uint32_t length, state, ascii_data, compact_data, data_pointer;
                uint8_t kind_shift, compact_bit,
                        ascii_bit; /* in the bit field "state"; kind has three bits */
        } unicode;
};

/* The row for a value of Py_Version (0x030B02F0 is 3.11.2), or NULL when it is not supported. */
const struct python_layout *python_layout_find(uint64_t py_version);

/* The supported minor versions, for messages: "3.11". */
extern const char python_layout_supported[];
