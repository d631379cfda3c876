/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the column of one minor version of CPython (probes/stack/layout.def) from its installed headers:
 * every number below is an offsetof, a sizeof or an enumerator of those headers. test_layout.py builds it
 * with -I of the headers and of their internal/, and compares what it prints with the table that is checked
 * in:
 *
 *   tests/stack/test_layout.py --print INCLUDE_DIR
 */
#define Py_BUILD_CORE 1
#include <Python.h>

#include <frameobject.h>
#include <internal/pycore_pystate.h>
#if PY_VERSION_HEX >= 0x03090000
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#endif
#if PY_VERSION_HEX >= 0x030B0000
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#endif
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe_structs.h>
#include <internal/pycore_interpframe.h>
#include <internal/pycore_stackref.h>
#include <internal/pycore_genobject.h>
#endif
#if PY_VERSION_HEX >= 0x030C0000
#include <internal/pycore_gil.h>
#endif
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *group_name;

#define PUT(name, value) printf("%s.%s %zu\n", group_name, #name, (size_t) (value))
#define NONE(name) printf("%s.%s NONE\n", group_name, #name)

/* Frames of this owner and greater ones are no Python calls: the interpreter's own (_PyFrame_IsIncomplete).
 */
#if PY_VERSION_HEX >= 0x030E0000
#define FIRST_OWNED_BY_C FRAME_OWNED_BY_INTERPRETER
#elif PY_VERSION_HEX >= 0x030C0000
#define FIRST_OWNED_BY_C FRAME_OWNED_BY_CSTACK
#endif

/* The bit that a bit field of PyASCIIObject.state starts at. */
#define FIRST_BIT(field)                                                                                    \
        ({                                                                                                  \
                PyASCIIObject o;                                                                            \
                uint32_t bits;                                                                              \
                memset(&o, 0, sizeof(o));                                                                   \
                o.state.field = 1;                                                                          \
                memcpy(&bits, &o.state, sizeof(bits));                                                      \
                __builtin_ctz(bits);                                                                        \
        })

static void runtime(void) {
        PUT(interpreters, offsetof(_PyRuntimeState, interpreters.head));
        PUT(main_thread, offsetof(_PyRuntimeState, main_thread));
#if PY_VERSION_HEX < 0x030C0000
        PUT(gil_holder, offsetof(_PyRuntimeState, gilstate.tstate_current));
#else
        NONE(gil_holder); /* each interpreter has its own */
#endif
}

static void interpreter(void) {
        PUT(next, offsetof(PyInterpreterState, next));
        PUT(id, offsetof(PyInterpreterState, id));
#if PY_VERSION_HEX >= 0x030B0000
        PUT(threads, offsetof(PyInterpreterState, threads.head));
#else
        PUT(threads, offsetof(PyInterpreterState, tstate_head));
#endif
#if PY_VERSION_HEX >= 0x030C0000
        PUT(gil, offsetof(PyInterpreterState, ceval.gil));
#else
        NONE(gil);
#endif
}

static void gil(void) {
#if PY_VERSION_HEX >= 0x030C0000
        PUT(last_holder, offsetof(struct _gil_runtime_state, last_holder));
        PUT(locked, offsetof(struct _gil_runtime_state, locked));
#endif
}

static void thread(void) {
        PUT(next, offsetof(PyThreadState, next));
        PUT(interpreter, offsetof(PyThreadState, interp));
        PUT(thread_id, offsetof(PyThreadState, thread_id));
#if PY_VERSION_HEX >= 0x030B0000
        PUT(native_thread_id, offsetof(PyThreadState, native_thread_id));
#else
        NONE(native_thread_id);
#endif
#if PY_VERSION_HEX < 0x030B0000
        NONE(cframe);
        PUT(frame, offsetof(PyThreadState, frame));
        PUT(tracing, offsetof(PyThreadState, tracing));
#elif PY_VERSION_HEX < 0x030D0000
        PUT(cframe, offsetof(PyThreadState, cframe));
        PUT(frame, offsetof(_PyCFrame, current_frame));
#else
        NONE(cframe);
        PUT(frame, offsetof(PyThreadState, current_frame));
#endif
}

#if PY_VERSION_HEX < 0x030B0000
static void frame(void) {
        PUT(code, offsetof(PyFrameObject, f_code));
        PUT(previous, offsetof(PyFrameObject, f_back));
        PUT(instruction, offsetof(PyFrameObject, f_lasti));
        PUT(instruction_size, PY_VERSION_HEX < 0x030A0000 ? 1 : 2);
        NONE(stack_top);
        NONE(is_entry);
        NONE(owner);
#if PY_VERSION_HEX < 0x030A0000
        PUT(state, offsetof(PyFrameObject, f_executing));
        PUT(executing, 1);
        PUT(unwinding, 1);
#else
        PUT(state, offsetof(PyFrameObject, f_state));
        PUT(executing, FRAME_EXECUTING);
        PUT(unwinding, FRAME_UNWINDING);
#endif
        PUT(size, offsetof(PyFrameObject, f_blockstack)); /* what is read of it */
}
#else
static void frame(void) {
#if PY_VERSION_HEX < 0x030D0000
        PUT(code, offsetof(_PyInterpreterFrame, f_code));
        PUT(instruction, offsetof(_PyInterpreterFrame, prev_instr));
#else
        PUT(code, offsetof(_PyInterpreterFrame, f_executable));
        PUT(instruction, offsetof(_PyInterpreterFrame, instr_ptr));
#endif
        PUT(previous, offsetof(_PyInterpreterFrame, previous));
#if PY_VERSION_HEX < 0x030E0000
        PUT(stack_top, offsetof(_PyInterpreterFrame, stacktop));
#else
        PUT(stack_top, offsetof(_PyInterpreterFrame, stackpointer));
        PUT(stack_top_is_pointer, 1);
        PUT(tag, 7); /* Py_TAG_REFCNT, Py_TAG_BITS: what an aligned address never has set */
#endif
#if PY_VERSION_HEX < 0x030C0000
        PUT(is_entry, offsetof(_PyInterpreterFrame, is_entry));
#else
        NONE(is_entry);
        PUT(owned_by_c, FIRST_OWNED_BY_C);
#endif
        NONE(state);
        PUT(owner, offsetof(_PyInterpreterFrame, owner));
        PUT(size, offsetof(_PyInterpreterFrame, localsplus));
        PUT(generator_state, offsetof(PyGenObject, gi_iframe) - offsetof(PyGenObject, gi_frame_state));
        PUT(owned_by_generator, FRAME_OWNED_BY_GENERATOR);
        PUT(executing, FRAME_EXECUTING);
}
#endif

static void code(void) {
        PUT(filename, offsetof(PyCodeObject, co_filename));
#if PY_VERSION_HEX >= 0x030B0000
        PUT(qualname, offsetof(PyCodeObject, co_qualname));
#else
        PUT(qualname, offsetof(PyCodeObject, co_name));
#endif
#if PY_VERSION_HEX >= 0x030A0000
        PUT(linetable, offsetof(PyCodeObject, co_linetable));
#else
        PUT(linetable, offsetof(PyCodeObject, co_lnotab));
#endif
        PUT(first_line, offsetof(PyCodeObject, co_firstlineno));
#if PY_VERSION_HEX >= 0x030B0000
        PUT(first_traceable, offsetof(PyCodeObject, _co_firsttraceable));
        NONE(bytecode);
        PUT(size, offsetof(PyCodeObject, co_code_adaptive));
#else
        NONE(first_traceable);
        PUT(bytecode, offsetof(PyCodeObject, co_code));
        PUT(size, sizeof(PyCodeObject));
#endif
}

static void objects(void) {
        PUT(type, offsetof(PyObject, ob_type));
        PUT(var_size, offsetof(PyVarObject, ob_size));
        PUT(bytes_data, offsetof(PyBytesObject, ob_sval));
}

static void unicode(void) {
        PUT(length, offsetof(PyASCIIObject, length));
        PUT(state, offsetof(PyASCIIObject, state));
        PUT(ascii_data, sizeof(PyASCIIObject));
        PUT(compact_data, sizeof(PyCompactUnicodeObject));
        PUT(data_pointer, offsetof(PyUnicodeObject, data));
        PUT(kind_shift, FIRST_BIT(kind));
        PUT(compact_bit, FIRST_BIT(compact));
        PUT(ascii_bit, FIRST_BIT(ascii));
}

#if PY_VERSION_HEX >= 0x030D0000
#define DEBUG(name, member) PUT(name, offsetof(_Py_DebugOffsets, member))
static void debug(void) {
        PUT(size, sizeof(_Py_DebugOffsets));
        DEBUG(interpreters, runtime_state.interpreters_head);
        DEBUG(interpreter_next, interpreter_state.next);
        DEBUG(interpreter_id, interpreter_state.id);
        DEBUG(interpreter_threads, interpreter_state.threads_head);
        DEBUG(interpreter_gil, interpreter_state.ceval_gil);
        DEBUG(thread_next, thread_state.next);
        DEBUG(thread_interpreter, thread_state.interp);
        DEBUG(thread_frame, thread_state.current_frame);
        DEBUG(thread_id, thread_state.thread_id);
        DEBUG(native_thread_id, thread_state.native_thread_id);
        DEBUG(frame_code, interpreter_frame.executable);
        DEBUG(frame_previous, interpreter_frame.previous);
        DEBUG(frame_instruction, interpreter_frame.instr_ptr);
        DEBUG(frame_owner, interpreter_frame.owner);
        DEBUG(frame_size, interpreter_frame.localsplus);
        DEBUG(code_filename, code_object.filename);
        DEBUG(code_qualname, code_object.qualname);
        DEBUG(code_linetable, code_object.linetable);
        DEBUG(code_first_line, code_object.firstlineno);
        DEBUG(code_size, code_object.co_code_adaptive);
        DEBUG(object_type, pyobject.ob_type);
        DEBUG(bytes_size, bytes_object.ob_size);
        DEBUG(bytes_data, bytes_object.ob_sval);
        DEBUG(unicode_length, unicode_object.length);
        DEBUG(unicode_state, unicode_object.state);
        DEBUG(unicode_ascii_data, unicode_object.asciiobject_size);
}
#endif

static void group(const char *name, void (*put)(void)) {
        group_name = name;
        put();
}

int main(void) {
        printf("version 0x%04X\n", PY_VERSION_HEX >> 16);
        printf("lines %s\n", PY_VERSION_HEX < 0x030A0000   ? "LINES_LNOTAB"
                                         : PY_VERSION_HEX < 0x030B0000 ? "LINES_RANGES"
                                                                       : "LINES_LOCATIONS");
        group("runtime", runtime);
        group("interpreter", interpreter);
#if PY_VERSION_HEX >= 0x030C0000
        group("gil", gil);
#endif
        group("thread", thread);
        group("frame", frame);
        group("code", code);
        group("object", objects);
        group("unicode", unicode);
#if PY_VERSION_HEX >= 0x030D0000
        group("debug", debug);
#endif
        return 0;
}
