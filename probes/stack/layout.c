/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#define NONE LAYOUT_NONE

static const struct python_layout columns[] = {
#define ROW(member, a, b, c, d, e, f, g, h)                                                                 \
        [0].member = a, [1].member = b, [2].member = c, [3].member = d, [4].member = e, [5].member = f,     \
        [6].member = g, [7].member = h,
#define DESCRIBED(name, into, below, f, g, h) ROW(debug.name, 0, 0, 0, 0, 0, f, g, h)
#include "layout.def"
#undef ROW
#undef DESCRIBED
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

#define STATE_MAX (4u * 1024 * 1024) /* an interpreter's state is some hundred KiB */
#define THREAD_MAX 4096u
#define FRAME_MAX 128u
#define CODE_HEAD_MAX 248u
#define OBJECT_MAX 64u

static const struct described all_described[] = {
#define ROW(...)
#define DESCRIBED(name, into, below, ...)                                                                   \
        { offsetof(struct python_layout, debug.name), offsetof(struct python_layout, into), below },
#include "layout.def"
#undef ROW
#undef DESCRIBED
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
