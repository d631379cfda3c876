/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where CPython keeps what a stack is made of: byte offsets, a column of layout.def for each minor
 * version. Offsets are no part of Python's stable interface; they are the same through all releases of
 * one minor version from its release candidate on. From 3.13 on the interpreter says most of them itself
 * (_Py_DebugOffsets, the first member of _PyRuntime): those are taken, so that a build with other options
 * fits, too; what it does not say stays that of the table. A version without a column, and a build without
 * the GIL, is refused, never guessed.
 */
#include "base.h"

#define LAYOUT_NONE UINT32_MAX /* this version has no such member */
#define LAYOUT_DEBUG_MAX 1024u /* bytes of _Py_DebugOffsets that are looked at */

enum line_format {
        LINES_LNOTAB,    /* co_lnotab, to 3.9 */
        LINES_RANGES,    /* co_linetable of 3.10 */
        LINES_LOCATIONS, /* co_linetable from 3.11 on */
};

struct python_layout {
        uint32_t version; /* major << 8 | minor */
        enum line_format lines;

        struct { /* _PyRuntimeState */
                uint32_t interpreters, main_thread;
                uint32_t gil_holder; /* .gilstate.tstate_current: NULL while nobody holds the GIL */
        } runtime;
        struct { /* PyInterpreterState; threads: newest first; gil: address of its lock, from 3.12 on */
                uint32_t next, id, threads, gil;
        } interpreter;
        struct { /* struct _gil_runtime_state */
                uint32_t last_holder, locked;
        } gil;
        struct { /* PyThreadState; interpreter: back to its PyInterpreterState */
                uint32_t next, interpreter;
                uint32_t thread_id;        /* pthread_self() */
                uint32_t native_thread_id; /* gettid() in its own namespace; stale after fork() */
                uint32_t cframe;           /* address of the struct that frame is in; none: in this one */
                uint32_t frame;            /* address of the innermost frame */
                uint32_t tracing;          /* to 3.10: not 0 while a trace function runs */
        } thread;
        struct { /* _PyInterpreterFrame; to 3.10 PyFrameObject */
                uint32_t code, previous;
                /* 3.11, 3.12: prev_instr; from 3.13 on instr_ptr: addresses; before: f_lasti */
                uint32_t instruction;
                uint32_t instruction_size; /* bytes of one step of f_lasti; 0: instruction is an address */
                uint32_t stack_top;        /* negative while the frame itself executes; as a pointer: NULL */
                uint32_t is_entry;         /* 3.11: called from C, not by the frame before it */
                uint32_t owner;
                uint32_t size;            /* what is read of it */
                /* of a generator's frame: how many bytes before it is gi_frame_state */
                uint32_t generator_state;
                uint32_t state; /* to 3.10: f_executing or f_state, one of the next two in a frame in use */
                uint32_t executing, unwinding; /* FRAME_EXECUTING, FRAME_UNWINDING */
                uint32_t owned_by_generator;   /* FRAME_OWNED_BY_GENERATOR */
                /* from 3.12 on: an owner not below this one is the interpreter itself; 0: no such */
                uint32_t owned_by_c;
                uint32_t tag;        /* bits of code that are no part of the address (_PyStackRef) */
                bool stack_top_is_pointer;
        } frame;
        /* PyCodeObject; size: up to the first instruction; bytecode: to 3.10 the bytes object of it */
        struct {
                uint32_t filename, qualname, linetable, first_line, first_traceable, bytecode, size;
        } code;
        struct { /* PyObject, PyVarObject, PyBytesObject, PyTupleObject */
                uint32_t type, var_size, bytes_data;
        } object;
        struct { /* PyASCIIObject, PyCompactUnicodeObject, PyUnicodeObject */
                uint32_t length, state, ascii_data, compact_data, data_pointer;
                uint32_t kind_shift, compact_bit,
                        ascii_bit; /* in the bit field "state"; kind has three bits */
        } unicode;
        struct { /* where in _Py_DebugOffsets each stands; size 0: this version has none */
                uint32_t size, interpreters, interpreter_next, interpreter_id, interpreter_threads,
                        interpreter_gil, thread_next, thread_interpreter, thread_frame, thread_id,
                        native_thread_id, frame_code, frame_previous, frame_instruction, frame_owner,
                        frame_size, code_filename, code_qualname, code_linetable, code_first_line, code_size,
                        object_type, bytes_size, bytes_data, unicode_length, unicode_state,
                        unicode_ascii_data;
        } debug;
};

/* The column for a value of Py_Version (0x030B02F0 is 3.11.2), or NULL when it is not supported. */
const struct python_layout *python_layout_find(uint64_t py_version);

/*
 * A column with what the interpreter says of itself: bytes are the first column->debug.size of _PyRuntime.
 * -EBADMSG: they are no such table of that version, or an offset in it is none that can be; -EOPNOTSUPP: a
 * build without the GIL.
 */
int python_layout_describe(const struct python_layout *column, uint64_t py_version, const uint8_t *bytes,
                           struct python_layout *ret);

/* The supported minor versions, for messages. */
extern const char python_layout_supported[];
