/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

/*
 * CPython 3.8 to 3.15 on x86-64: one row a member, one column a version. Each column is what
 * tests/stack/derive.c makes of the headers of that version; test_layout.py compares. 0: this version has
 * none, and nothing asks for it. From 3.13 on, what the interpreter says of itself (.debug: where in
 * _Py_DebugOffsets) takes the place of what stands here.
 *
 *                                       3.8   3.9   3.10  3.11  3.12  3.13  3.14  3.15
 */
#define NONE LAYOUT_NONE
#define ROWS(OF)                                                                           \
        .runtime.interpreters        = OF(  32,   32,   32,   40,   40,  632,  808,  936), \
        .runtime.main_thread         = OF(  72,   72,   72,   80,   64,  656,  832,  960), \
        .runtime.gil_holder          = OF(1368,  568,  568,  576, NONE, NONE, NONE, NONE), \
        .interpreter.next            = OF(   0,    0,    0,    0,    0, 7264, 7272, 7264), \
        .interpreter.id              = OF(  16,   24,   24,   48,    8, 7272, 7280, 7272), \
        .interpreter.threads         = OF(   8,    8,    8,   16,   72, 7344, 7344, 7336), \
        .interpreter.gil             = OF(NONE, NONE, NONE, NONE,  384,   16,   16,   16), \
        .gil.last_holder             = OF(   0,    0,    0,    0,    8,    8,    8,    8), \
        .gil.locked                  = OF(   0,    0,    0,    0,   16,   16,   16,   16), \
        .thread.next                 = OF(   8,    8,    8,    8,    8,    8,    8,    8), \
        .thread.interpreter          = OF(  16,   16,   16,   16,   16,   16,   16,   16), \
        .thread.thread_id            = OF( 176,  176,  176,  152,  136,  152,  152,  176), \
        .thread.native_thread_id     = OF(NONE, NONE, NONE,  160,  144,  160,  160,  184), \
        .thread.cframe               = OF(NONE, NONE, NONE,   56,   56, NONE, NONE, NONE), \
        .thread.frame                = OF(  24,   24,   24,    8,    0,   72,   72,   72), \
        .thread.tracing              = OF(  44,   44,   44,    0,    0,    0,    0,    0), \
        .frame.code                  = OF(  32,   32,   32,   32,    0,    0,    0,    0), \
        .frame.previous              = OF(  24,   24,   24,   48,    8,    8,    8,    8), \
        .frame.instruction           = OF( 104,  104,   96,   56,   56,   56,   56,   56), \
        .frame.instruction_size      = OF(   1,    1,    2,    0,    0,    0,    0,    0), \
        .frame.stack_top             = OF(NONE, NONE, NONE,   64,   64,   64,   64,   64), \
        .frame.is_entry              = OF(NONE, NONE, NONE,   68, NONE, NONE, NONE, NONE), \
        .frame.owner                 = OF(NONE, NONE, NONE,   69,   70,   70,   74,   74), \
        .frame.state                 = OF( 116,  116,  108, NONE, NONE, NONE, NONE, NONE), \
        .frame.executing             = OF(   1,    1,    0,    0,    0,    0,    0,    4), \
        .frame.unwinding             = OF(   1,    1,    2,    0,    0,    0,    0,    0), \
        .frame.size                  = OF( 120,  120,  112,   72,   72,   72,   80,   80), \
        .frame.generator_state       = OF(   0,    0,    0,    5,    5,    5,    5,    5), \
        .frame.owned_by_generator    = OF(   0,    0,    0,    1,    1,    1,    1,    1), \
        .frame.owned_by_c            = OF(   0,    0,    0,    0,    3,    3,    3,    3), \
        .frame.stack_top_is_pointer  = OF(   0,    0,    0,    0,    0,    0,    1,    1), \
        .frame.tag                   = OF(   0,    0,    0,    0,    0,    0,    7,    7), \
        .code.filename               = OF( 104,  104,  104,  112,  112,  112,  112,  112), \
        .code.qualname               = OF( 112,  112,  112,  128,  128,  128,  128,  128), \
        .code.linetable              = OF( 120,  120,  120,  136,  136,  136,  136,  136), \
        .code.first_line             = OF(  40,   40,   40,   72,   68,   68,   68,   68), \
        .code.first_traceable        = OF(NONE, NONE, NONE,  168,  176,  184,  192,  192), \
        .code.bytecode               = OF(  48,   48,   48, NONE, NONE, NONE, NONE, NONE), \
        .code.size                   = OF( 176,  176,  176,  184,  192,  200,  208,  208), \
        .object.type                 = OF(   8,    8,    8,    8,    8,    8,    8,    8), \
        .object.var_size             = OF(  16,   16,   16,   16,   16,   16,   16,   16), \
        .object.bytes_data           = OF(  32,   32,   32,   32,   32,   32,   32,   32), \
        .unicode.length              = OF(  16,   16,   16,   16,   16,   16,   16,   16), \
        .unicode.state               = OF(  32,   32,   32,   32,   32,   32,   32,   32), \
        .unicode.ascii_data          = OF(  48,   48,   48,   48,   40,   40,   40,   40), \
        .unicode.compact_data        = OF(  72,   72,   72,   72,   56,   56,   56,   56), \
        .unicode.data_pointer        = OF(  72,   72,   72,   72,   56,   56,   56,   56), \
        .unicode.kind_shift          = OF(   2,    2,    2,    2,    2,    2,    2,    2), \
        .unicode.compact_bit         = OF(   5,    5,    5,    5,    5,    5,    5,    5), \
        .unicode.ascii_bit           = OF(   6,    6,    6,    6,    6,    6,    6,    6), \
        .debug.size                  = OF(   0,    0,    0,    0,    0,  584,  760,  888), \
        .debug.interpreters          = OF(   0,    0,    0,    0,    0,   40,   40,   40), \
        .debug.interpreter_next      = OF(   0,    0,    0,    0,    0,   64,   64,   64), \
        .debug.interpreter_id        = OF(   0,    0,    0,    0,    0,   56,   56,   56), \
        .debug.interpreter_threads   = OF(   0,    0,    0,    0,    0,   72,   72,   72), \
        .debug.interpreter_gil       = OF(   0,    0,    0,    0,    0,  112,  120,  120), \
        .debug.thread_next           = OF(   0,    0,    0,    0,    0,  168,  192,  192), \
        .debug.thread_interpreter    = OF(   0,    0,    0,    0,    0,  176,  200,  200), \
        .debug.thread_frame          = OF(   0,    0,    0,    0,    0,  184,  208,  208), \
        .debug.thread_id             = OF(   0,    0,    0,    0,    0,  192,  216,  240), \
        .debug.native_thread_id      = OF(   0,    0,    0,    0,    0,  200,  224,  248), \
        .debug.frame_code            = OF(   0,    0,    0,    0,    0,  240,  264,  328), \
        .debug.frame_previous        = OF(   0,    0,    0,    0,    0,  232,  256,  320), \
        .debug.frame_instruction     = OF(   0,    0,    0,    0,    0,  248,  272,  336), \
        .debug.frame_owner           = OF(   0,    0,    0,    0,    0,  264,  288,  352), \
        .debug.frame_size            = OF(   0,    0,    0,    0,    0,  256,  280,  344), \
        .debug.code_filename         = OF(   0,    0,    0,    0,    0,  280,  320,  384), \
        .debug.code_qualname         = OF(   0,    0,    0,    0,    0,  296,  336,  400), \
        .debug.code_linetable        = OF(   0,    0,    0,    0,    0,  304,  344,  408), \
        .debug.code_first_line       = OF(   0,    0,    0,    0,    0,  312,  352,  416), \
        .debug.code_size             = OF(   0,    0,    0,    0,    0,  344,  384,  448), \
        .debug.object_type           = OF(   0,    0,    0,    0,    0,  360,  408,  472), \
        .debug.bytes_size            = OF(   0,    0,    0,    0,    0,  520,  600,  696), \
        .debug.bytes_data            = OF(   0,    0,    0,    0,    0,  528,  608,  704), \
        .debug.unicode_length        = OF(   0,    0,    0,    0,    0,  552,  632,  728), \
        .debug.unicode_state         = OF(   0,    0,    0,    0,    0,  544,  624,  720), \
        .debug.unicode_ascii_data    = OF(   0,    0,    0,    0,    0,  560,  640,  736),

/* The column of a version. */
#define OF_308(v, b, c, d, e, f, g, h) v
#define OF_309(a, v, c, d, e, f, g, h) v
#define OF_310(a, b, v, d, e, f, g, h) v
#define OF_311(a, b, c, v, e, f, g, h) v
#define OF_312(a, b, c, d, v, f, g, h) v
#define OF_313(a, b, c, d, e, v, g, h) v
#define OF_314(a, b, c, d, e, f, v, h) v
#define OF_315(a, b, c, d, e, f, g, v) v

static const struct python_layout columns[] = {
        { .version = 0x0308, .lines = LINES_LNOTAB, ROWS(OF_308) },
        { .version = 0x0309, .lines = LINES_LNOTAB, ROWS(OF_309) },
        { .version = 0x030A, .lines = LINES_RANGES, ROWS(OF_310) },
        { .version = 0x030B, .lines = LINES_LOCATIONS, ROWS(OF_311) },
        { .version = 0x030C, .lines = LINES_LOCATIONS, ROWS(OF_312) },
        { .version = 0x030D, .lines = LINES_LOCATIONS, ROWS(OF_313) },
        { .version = 0x030E, .lines = LINES_LOCATIONS, ROWS(OF_314) },
        { .version = 0x030F, .lines = LINES_LOCATIONS, ROWS(OF_315) },
};

const char python_layout_supported[] = "3.8 to 3.15";

const struct python_layout *python_layout_find(uint64_t py_version) {
        uint64_t level = (py_version >> 4) & 0xF; /* 0xA alpha, 0xB beta, 0xC candidate, 0xF release */

        if (py_version > UINT32_MAX || level < 0xC)
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(columns); i++)
                if (columns[i].version == py_version >> 16)
                        return &columns[i];
        return NULL;
}

/* One number of the table: where it stands, where it goes, and what it must be below. */
struct described {
        size_t at, to; /* in struct python_layout */
        uint32_t limit;
};

#define OF(from, into, below)                                                                               \
        { offsetof(struct python_layout, debug.from), offsetof(struct python_layout, into), below }
#define STATE_MAX (4u * 1024 * 1024) /* an interpreter's state is some hundred KiB */
#define THREAD_MAX 4096u
#define FRAME_MAX 128u
#define CODE_HEAD_MAX 248u
#define OBJECT_MAX 64u

static const struct described all_described[] = {
        OF(interpreters, runtime.interpreters, STATE_MAX),
        OF(interpreter_next, interpreter.next, STATE_MAX),
        OF(interpreter_id, interpreter.id, STATE_MAX),
        OF(interpreter_threads, interpreter.threads, STATE_MAX),
        OF(interpreter_gil, interpreter.gil, STATE_MAX),
        OF(thread_next, thread.next, THREAD_MAX),
        OF(thread_interpreter, thread.interpreter, THREAD_MAX),
        OF(thread_frame, thread.frame, THREAD_MAX),
        OF(thread_id, thread.thread_id, THREAD_MAX),
        OF(native_thread_id, thread.native_thread_id, THREAD_MAX),
        OF(frame_code, frame.code, FRAME_MAX - 8),
        OF(frame_previous, frame.previous, FRAME_MAX - 8),
        OF(frame_instruction, frame.instruction, FRAME_MAX - 8),
        OF(frame_owner, frame.owner, FRAME_MAX),
        OF(frame_size, frame.size, FRAME_MAX),
        OF(code_filename, code.filename, CODE_HEAD_MAX),
        OF(code_qualname, code.qualname, CODE_HEAD_MAX),
        OF(code_linetable, code.linetable, CODE_HEAD_MAX),
        OF(code_first_line, code.first_line, CODE_HEAD_MAX),
        OF(code_size, code.size, CODE_HEAD_MAX),
        OF(object_type, object.type, OBJECT_MAX - 8),
        OF(bytes_size, object.var_size, OBJECT_MAX - 8),
        OF(bytes_data, object.bytes_data, OBJECT_MAX),
        OF(unicode_length, unicode.length, OBJECT_MAX),
        OF(unicode_state, unicode.state, OBJECT_MAX),
        OF(unicode_ascii_data, unicode.ascii_data, OBJECT_MAX),
};

static uint64_t number_at(const uint8_t *bytes, size_t at) {
        uint64_t v;

        memcpy(&v, bytes + at, sizeof(v));
        return v;
}

/* What must hold of members that are read with what contains them. */
static bool layout_fits(const struct python_layout *l) {
        return l->code.first_traceable < l->code.size && /* it is counted back from there */
               l->frame.code + 8 <= l->frame.size && l->frame.previous + 8 <= l->frame.size &&
               l->frame.instruction + 8 <= l->frame.size && l->frame.owner < l->frame.size &&
               l->frame.stack_top + 8 <= l->frame.size && l->code.filename + 8 <= l->code.size &&
               l->code.qualname + 8 <= l->code.size && l->code.linetable + 8 <= l->code.size &&
               l->code.first_line + 4 <= l->code.size && l->object.type + 8 <= l->code.size &&
               l->code.first_traceable + 4 <= l->code.size &&
               l->object.var_size + 8 <= l->object.bytes_data &&
               l->object.type + 8 <= l->object.bytes_data && l->object.type + 8 <= l->unicode.ascii_data &&
               l->unicode.length + 8 <= l->unicode.ascii_data &&
               l->unicode.state + 4 <= l->unicode.ascii_data;
}

int python_layout_describe(const struct python_layout *column, uint64_t py_version, const uint8_t *bytes,
                           struct python_layout *ret) {
        struct python_layout l = *column;

        if (memcmp(bytes, "xdebugpy", 8) != 0 || number_at(bytes, 8) != py_version)
                return -EBADMSG;
        if (number_at(bytes, 16) != 0)
                return -EOPNOTSUPP;
        for (size_t i = 0; i < ELEMENTSOF(all_described); i++) {
                const struct described *d = &all_described[i];
                uint32_t at;
                uint64_t v;

                memcpy(&at, (const uint8_t *) column + d->at, sizeof(at));
                v = number_at(bytes, at);
                if (v >= d->limit)
                        return -EBADMSG;
                memcpy((uint8_t *) &l + d->to, &(uint32_t) { (uint32_t) v }, sizeof(uint32_t));
        }
        /* Not read from there: what lies at a fixed distance from what is. */
        l.runtime.main_thread =
                l.runtime.interpreters + column->runtime.main_thread - column->runtime.interpreters;
        l.code.first_traceable = l.code.size - (column->code.size - column->code.first_traceable);
        l.unicode.compact_data =
                l.unicode.ascii_data + column->unicode.compact_data - column->unicode.ascii_data;
        l.unicode.data_pointer =
                l.unicode.ascii_data + column->unicode.data_pointer - column->unicode.ascii_data;
        if (!layout_fits(&l))
                return -EBADMSG;
        *ret = l;
        return 0;
}
