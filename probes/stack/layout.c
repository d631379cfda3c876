/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include "layout308.h"
#include "layout309.h"
#include "layout310.h"
#include "layout311.h"
#include "layout312.h"
#include "layout313.h"
#include "layout314.h"
#include "layout315.h"

const char python_layout_supported[] = "3.8 to 3.15";

const struct python_layout *python_layout_find(uint64_t py_version) {
        static const struct python_layout *const rows[] = {
                &python_layout_308, &python_layout_309, &python_layout_310, &python_layout_311,
                &python_layout_312, &python_layout_313, &python_layout_314, &python_layout_315,
        };
        uint64_t level = (py_version >> 4) & 0xF; /* 0xA alpha, 0xB beta, 0xC candidate, 0xF release */

        if (py_version > UINT32_MAX || level < 0xC)
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (rows[i]->version == py_version >> 16)
                        return rows[i];
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
        OF(code_local_names, code.local_names, CODE_HEAD_MAX),
        OF(tuple_items, object.tuple_items, OBJECT_MAX),
};

static uint64_t number_at(const uint8_t *bytes, size_t at) {
        uint64_t v;

        memcpy(&v, bytes + at, sizeof(v));
        return v;
}

/* What must hold of members that are read with what contains them. */
static bool fits(const struct python_layout *l) {
        return l->frame.code + 8 <= l->frame.size && l->frame.previous + 8 <= l->frame.size &&
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

int python_layout_describe(const struct python_layout *row, uint64_t py_version, const uint8_t *bytes,
                           struct python_layout *ret) {
        struct python_layout l = *row;

        if (memcmp(bytes, "xdebugpy", 8) != 0 || number_at(bytes, 8) != py_version)
                return -EBADMSG;
        if (number_at(bytes, 16) != 0)
                return -EOPNOTSUPP;
        for (size_t i = 0; i < ELEMENTSOF(all_described); i++) {
                const struct described *d = &all_described[i];
                uint32_t at;
                uint64_t v;

                memcpy(&at, (const uint8_t *) row + d->at, sizeof(at));
                v = number_at(bytes, at);
                if (v >= d->limit)
                        return -EBADMSG;
                memcpy((uint8_t *) &l + d->to, &(uint32_t) { (uint32_t) v }, sizeof(uint32_t));
        }
        /* Not told: what lies at a fixed distance from what is. */
        l.runtime.main_thread =
                l.runtime.interpreters + row->runtime.main_thread - row->runtime.interpreters;
        l.frame.locals = l.frame.size; /* a frame ends where they begin */
        l.code.first_traceable = l.code.size - (row->code.size - row->code.first_traceable);
        l.unicode.compact_data = l.unicode.ascii_data + row->unicode.compact_data - row->unicode.ascii_data;
        l.unicode.data_pointer = l.unicode.ascii_data + row->unicode.data_pointer - row->unicode.ascii_data;
        if (!fits(&l))
                return -EBADMSG;
        *ret = l;
        return 0;
}
