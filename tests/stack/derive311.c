/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes every number of layout311.h again from installed headers of CPython 3.11 and compares. Exit code
 * 1 and a line each when one differs. Built by test_stack.py with -I of the headers, of their internal/ and
 * of probes/stack.
 */
#define Py_BUILD_CORE 1
#include <Python.h>

#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>

#undef MIN
#undef MAX
#include "layout311.h"

#define SAME(member, value) \
        do { \
                compared++; \
                if ((size_t) python_layout_311.member != (size_t) (value)) { \
                        printf("%s is %zu, the headers say %zu\n", #member, \
                               (size_t) python_layout_311.member, (size_t) (value)); \
                        wrong++; \
                } \
        } while (0)

/* The bit that a bit field of PyASCIIObject.state starts at. */
#define FIRST_BIT(field) \
        ({ \
                PyASCIIObject o = { 0 }; \
                uint32_t bits; \
                o.state.field = 1; \
                memcpy(&bits, &o.state, sizeof(bits)); \
                __builtin_ctz(bits); \
        })

int main(void) {
        int wrong = 0, compared = 0;

        SAME(version, PY_VERSION_HEX >> 16);
        SAME(runtime.interpreters, offsetof(_PyRuntimeState, interpreters.head));
        SAME(runtime.main_thread, offsetof(_PyRuntimeState, main_thread));
        SAME(runtime.gil_holder, offsetof(_PyRuntimeState, gilstate.tstate_current));
        SAME(interpreter.next, offsetof(PyInterpreterState, next));
        SAME(interpreter.threads, offsetof(PyInterpreterState, threads.head));
        SAME(interpreter.id, offsetof(PyInterpreterState, id));
        SAME(thread.next, offsetof(PyThreadState, next));
        SAME(thread.cframe, offsetof(PyThreadState, cframe));
        SAME(thread.thread_id, offsetof(PyThreadState, thread_id));
        SAME(thread.native_thread_id, offsetof(PyThreadState, native_thread_id));
        SAME(cframe.current_frame, offsetof(_PyCFrame, current_frame));
        SAME(frame.code, offsetof(_PyInterpreterFrame, f_code));
        SAME(frame.previous, offsetof(_PyInterpreterFrame, previous));
        SAME(frame.instruction, offsetof(_PyInterpreterFrame, prev_instr));
        SAME(frame.stack_top, offsetof(_PyInterpreterFrame, stacktop));
        SAME(frame.is_entry, offsetof(_PyInterpreterFrame, is_entry));
        SAME(frame.generator_state,
             offsetof(PyGenObject, gi_iframe) - offsetof(PyGenObject, gi_frame_state));
        SAME(frame.executing, FRAME_EXECUTING);
        SAME(frame.owner, offsetof(_PyInterpreterFrame, owner));
        SAME(frame.size, offsetof(_PyInterpreterFrame, localsplus));
        SAME(frame.owned_by_generator, FRAME_OWNED_BY_GENERATOR);
        SAME(code.filename, offsetof(PyCodeObject, co_filename));
        SAME(code.qualname, offsetof(PyCodeObject, co_qualname));
        SAME(code.linetable, offsetof(PyCodeObject, co_linetable));
        SAME(code.first_line, offsetof(PyCodeObject, co_firstlineno));
        SAME(code.first_traceable, offsetof(PyCodeObject, _co_firsttraceable));
        SAME(code.size, offsetof(PyCodeObject, co_code_adaptive));
        SAME(object.type, offsetof(PyObject, ob_type));
        SAME(object.var_size, offsetof(PyVarObject, ob_size));
        SAME(object.bytes_data, offsetof(PyBytesObject, ob_sval));
        SAME(unicode.length, offsetof(PyASCIIObject, length));
        SAME(unicode.state, offsetof(PyASCIIObject, state));
        SAME(unicode.ascii_data, sizeof(PyASCIIObject));
        SAME(unicode.compact_data, sizeof(PyCompactUnicodeObject));
        SAME(unicode.data_pointer, offsetof(PyUnicodeObject, data));
        SAME(unicode.kind_shift, FIRST_BIT(kind));
        SAME(unicode.compact_bit, FIRST_BIT(compact));
        SAME(unicode.ascii_bit, FIRST_BIT(ascii));
        printf("%d compared, %d wrong\n", compared, wrong);
        return wrong > 0;
}
