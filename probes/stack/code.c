/* SPDX-License-Identifier: Apache-2.0 */
#include "code.h"

#include <assert.h>

#include "text.h"

#define TYPE_NAME_OFFSET 24u /* PyTypeObject.tp_name, 3.8 to 3.15 (Include/cpython/object.h) */

static void code_free(struct code *c) {
        if (!c)
                return;
        free(c->file);
        free(c->function);
        free(c->table);
        free(c);
}

DEFINE_CLEANUP(struct code *, code_free)

void code_cache_clear(struct code_cache *c) {
        for (size_t i = 0; i < ELEMENTSOF(c->buckets); i++)
                for (struct code *next, *p = c->buckets[i]; p; p = next) {
                        next = p->next;
                        code_free(p);
                }
        *c = (struct code_cache) { 0 };
}

static int read_name(struct memory *m, const struct python_layout *l, uint64_t type, uint64_t address,
                     char **ret) {
        char buf[TEXT_MAX];
        int r = text_read(m, l, type, address, buf);

        if (r < 0)
                return r;
        *ret = strdup(buf);
        return *ret ? 0 : -ENOMEM;
}

/* How long the bytes object there is. -EBADMSG: there is none, or it is too long. */
static int table_length(struct memory *m, const struct python_layout *l, uint64_t type, uint64_t address,
                        uint64_t *ret) {
        uint64_t found_type, len;
        uint8_t head[64];
        int r;

        assert(l->object.bytes_data <= sizeof(head));
        r = memory_read(m, address, head, l->object.bytes_data);
        if (r < 0)
                return r;
        memcpy(&found_type, head + l->object.type, 8);
        memcpy(&len, head + l->object.var_size, 8);
        if ((type && found_type != type) || len > CODE_TABLE_MAX)
                return -EBADMSG;
        *ret = len;
        return 0;
}

/* One that cannot be had leaves it NULL, for a stack without lines is still a stack. */
static int read_table(struct memory *m, const struct python_layout *l, uint64_t type, struct code *c) {
        uint64_t len;
        int r = table_length(m, l, type, c->table_at, &len);

        if (r < 0)
                return r == -EFAULT || r == -EBADMSG ? 0 : r;
        c->table = malloc(len + 1); /* an empty table says that all is on the first line, to 3.9 */
        if (!c->table)
                return -ENOMEM;
        r = memory_read(m, c->table_at + l->object.bytes_data, c->table, len);
        if (r < 0) {
                free(TAKE_PTR(c->table));
                return r == -EFAULT ? 0 : r;
        }
        c->table_len = len;
        return 0;
}

/* To 3.10 the instructions are in an object of their own, and counted from 0. */
static int read_bytecode(struct memory *m, const struct python_layout *l, const struct python_types *t,
                         uint64_t address, struct code *c) {
        uint64_t type, size;
        int r = memory_read_u64(m, address + l->object.type, &type);

        if (r == 0)
                r = memory_read_u64(m, address + l->object.var_size, &size);
        if (r < 0)
                return r;
        if (t->bytes && type != t->bytes)
                return -EBADMSG;
        c->units = size / 2;
        c->instructions = 0;
        c->first_traceable = -1;
        return 0;
}

/* Where its first instruction lies, how many there are, and which of them come before the function is
 * there. */
static int take_instructions(struct memory *m, const struct python_layout *l, const struct python_types *t,
                             const uint8_t *head, struct code *c) {
        uint64_t bytecode;
        int32_t first_traceable;

        if (l->code.bytecode != LAYOUT_NONE) {
                memcpy(&bytecode, head + l->code.bytecode, 8);
                return read_bytecode(m, l, t, bytecode, c);
        }
        memcpy(&c->units, head + l->object.var_size, 8);
        memcpy(&first_traceable, head + l->code.first_traceable, 4);
        c->first_traceable = first_traceable;
        c->instructions = c->address + l->code.size;
        return 0;
}

/* Whether a type object is that of code objects, where no symbol says which that is: by its name. */
static int check_code_type(struct memory *m, const struct python_types *t, uint64_t type) {
        char text[sizeof("code")];
        uint64_t name;
        int r;

        if (t->code)
                return type == t->code ? 0 : -EBADMSG;
        r = memory_read_u64(m, type + TYPE_NAME_OFFSET, &name);
        if (r == 0)
                r = memory_read(m, name, text, sizeof(text));
        return r < 0 ? r : memcmp(text, "code", sizeof(text)) == 0 ? 0 : -EBADMSG;
}

/* What a code object itself says: everything but the texts and the table. */
static int read_head(struct memory *m, const struct python_layout *l, const struct python_types *t,
                     struct code *c) {
        uint8_t head[256];
        uint64_t type;
        int r;

        assert(l->code.size <= sizeof(head));
        r = memory_read(m, c->address, head, l->code.size);
        if (r < 0)
                return r;
        memcpy(&type, head + l->object.type, 8);
        r = check_code_type(m, t, type);
        if (r < 0)
                return r;
        memcpy(&c->file_at, head + l->code.filename, 8);
        memcpy(&c->function_at, head + l->code.qualname, 8);
        memcpy(&c->table_at, head + l->code.linetable, 8);
        memcpy(&c->first_line, head + l->code.first_line, 4);
        c->lines = l->lines;
        return take_instructions(m, l, t, head, c);
}

static int code_read(struct memory *m, const struct python_layout *l, const struct python_types *t,
                     struct code *c) {
        int r = read_head(m, l, t, c);

        if (r == 0)
                r = read_name(m, l, t->unicode, c->file_at, &c->file);
        if (r == 0)
                r = read_name(m, l, t->unicode, c->function_at, &c->function);
        if (r == 0)
                r = read_table(m, l, t->bytes, c);
        return r;
}

static bool same_name(struct memory *m, const struct python_layout *l, uint64_t type, uint64_t address,
                      const char *known) {
        char buf[TEXT_MAX];

        return text_read(m, l, type, address, buf) == 0 && streq(buf, known);
}

/* One that could not be had must be so again. */
static bool same_table(struct memory *m, const struct python_layout *l, uint64_t type,
                       const struct code *c) {
        uint8_t part[256];
        uint64_t len;

        if (table_length(m, l, type, c->table_at, &len) < 0)
                return !c->table;
        if (!c->table || len != c->table_len)
                return false;
        for (size_t at = 0; at < c->table_len; at += sizeof(part)) {
                size_t n = MIN(c->table_len - at, sizeof(part));

                if (memory_read(m, c->table_at + l->object.bytes_data + at, part, n) < 0 ||
                    memcmp(part, c->table + at, n) != 0)
                        return false;
        }
        return true;
}

/* Whether all that was read of it is the same now. */
static bool code_stays(struct memory *m, const struct python_layout *l, const struct python_types *t,
                       const struct code *c) {
        struct code now = { .address = c->address };

        return read_head(m, l, t, &now) == 0 && now.file_at == c->file_at &&
               now.function_at == c->function_at && now.table_at == c->table_at &&
               now.first_line == c->first_line && now.units == c->units &&
               now.instructions == c->instructions && now.first_traceable == c->first_traceable &&
               same_name(m, l, t->unicode, c->file_at, c->file) &&
               same_name(m, l, t->unicode, c->function_at, c->function) && same_table(m, l, t->bytes, c);
}

static struct code **bucket_of(struct code_cache *c, uint64_t address) {
        return &c->buckets[(address >> 4) % ELEMENTSOF(c->buckets)];
}

/* The newest there is of that address; NULL: none. */
static struct code *known_code(struct code_cache *c, uint64_t address) {
        struct code *p = *bucket_of(c, address);

        while (p && p->address != address)
                p = p->next;
        return p;
}

static size_t code_bytes(const struct code *c) {
        return sizeof(*c) + strlen(c->file) + strlen(c->function) + c->table_len;
}

void code_cache_begin(struct code_cache *c) {
        for (size_t i = 0; c->n > 0 && i < ELEMENTSOF(c->buckets); i++)
                for (struct code **at = &c->buckets[i], *p; (p = *at);) {
                        if (p->generation >= c->begun) {
                                at = &p->next;
                                continue;
                        }
                        *at = p->next;
                        c->n--;
                        c->bytes -= code_bytes(p);
                        code_free(p);
                }
        c->begun = ++c->generation;
}

int code_want(struct code_cache *c, struct memory *m, const struct python_layout *l, uint64_t address,
              bool parts) {
        const uint32_t offsets[] = { l->code.filename, l->code.qualname, l->code.linetable,
                                     l->code.bytecode };
        const struct code *known = known_code(c, address);
        uint8_t head[256];
        uint64_t at;
        int r;

        if (known && known->generation == c->generation)
                return 0;
        if (!parts)
                return memory_want(m, address, l->code.size);
        r = memory_read(m, address, head, l->code.size);
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(offsets); i++) {
                if (offsets[i] == LAYOUT_NONE)
                        continue;
                memcpy(&at, head + offsets[i], 8);
                r = memory_want(m, at, 128); /* the object and what it holds, most often all of it */
        }
        return r;
}

int code_get(struct code_cache *c, struct memory *m, const struct python_layout *l,
             const struct python_types *t, uint64_t address, struct code **ret) {
        struct code **bucket = bucket_of(c, address), *known = known_code(c, address);
        _cleanup_(code_freep) struct code *new = NULL;
        int r;

        if (known && known->generation != c->generation && code_stays(m, l, t, known))
                known->generation = c->generation;
        if (known && known->generation == c->generation) {
                *ret = known;
                return 0;
        }
        if (c->n >= CODE_MAX || c->bytes >= CODE_BYTES_MAX)
                return -E2BIG;
        new = calloc(1, sizeof(*new));
        if (!new)
                return -ENOMEM;
        new->address = address;
        new->generation = c->generation;
        r = code_read(m, l, t, new);
        if (r < 0)
                return r;
        c->n++;
        c->bytes += code_bytes(new);
        new->next = *bucket;
        *ret = *bucket = TAKE_PTR(new);
        return 0;
}

/* --- Lines --------------------------------------------------------------------------------------------- */

#define ENTRY 0x80u /* set in the first byte of an entry and in no other */
#define MORE 0x40u  /* another 6 bits of a varint follow */

enum location_kind { /* _PyCodeLocationInfoKind; 0 to 9: short forms on the same line */
                     LOCATION_ONE_LINE0 = 10, /* 10, 11, 12: zero, one, two lines further */
                     LOCATION_ONE_LINE2 = 12,
                     LOCATION_NO_COLUMNS = 13,
                     LOCATION_LONG = 14,
                     LOCATION_NONE = 15,
};

/*
 * A signed varint: 6 bits a byte, least significant first, the sign in the lowest bit. False when malformed.
 */
static bool read_svarint(const uint8_t *p, const uint8_t *end, int64_t *ret) {
        uint64_t v = 0;

        for (unsigned shift = 0; p < end && shift <= 30; p++, shift += 6) {
                if (*p & ENTRY)
                        return false;
                v |= (uint64_t) (*p & 0x3F) << shift;
                if (!(*p & MORE)) {
                        *ret = v & 1 ? -(int64_t) (v >> 1) : (int64_t) (v >> 1);
                        return true;
                }
        }
        return false;
}

static bool line_delta(unsigned kind, const uint8_t *p, const uint8_t *end, int64_t *ret) {
        *ret = 0;
        if (kind == LOCATION_NO_COLUMNS || kind == LOCATION_LONG)
                return read_svarint(p, end, ret);
        if (kind >= LOCATION_ONE_LINE0 && kind <= LOCATION_ONE_LINE2)
                *ret = kind - LOCATION_ONE_LINE0;
        return true;
}

int line_of_unit(const uint8_t *table, size_t len, int first_line, int64_t unit) {
        const uint8_t *p = table, *end = len > 0 ? table + len : table;
        int64_t line = first_line, at = 0;

        if (unit < 0)
                return MAX(first_line, 0);
        while (p < end) {
                unsigned kind = (*p >> 3) & 15u;
                int64_t units = (*p & 7) + 1, delta;

                if (!(*p & ENTRY) || !line_delta(kind, p + 1, end, &delta))
                        return 0;
                line += delta;
                if (line < 0 || line > INT32_MAX)
                        return 0;
                at += units;
                if (unit < at)
                        return kind == LOCATION_NONE ? 0 : (int) line;
                for (p++; p < end && !(*p & ENTRY);)
                        p++;
        }
        return 0;
}

int line_of_byte_lnotab(const uint8_t *table, size_t len, int first_line, int64_t byte) {
        int64_t line = first_line, at = 0;

        for (size_t i = 0; i + 1 < len; i += 2) {
                at += table[i];
                if (at > byte)
                        break;
                line += (int8_t) table[i + 1];
        }
        return line < 0 || line > INT32_MAX ? 0 : (int) line;
}

int line_of_byte_ranges(const uint8_t *table, size_t len, int first_line, int64_t byte) {
        int64_t line = first_line, at = 0;

        if (byte < 0)
                return MAX(first_line, 0);
        for (size_t i = 0; i + 1 < len; i += 2) {
                int step = (int8_t) table[i + 1];

                at += table[i];
                if (step != -128)
                        line += step;
                if (byte < at)
                        return step == -128 || line < 0 || line > INT32_MAX ? 0 : (int) line;
        }
        return 0;
}

bool code_holds(const struct code *c, uint64_t instruction) {
        return (instruction - (c->instructions - 2)) / 2 <= c->units;
}

static int find_line(const struct code *c, uint64_t instruction) {
        int64_t bytes = (int64_t) (instruction - c->instructions);

        if (!c->table)
                return 0;
        switch (c->lines) {
        case LINES_LNOTAB:
                return line_of_byte_lnotab(c->table, c->table_len, c->first_line, bytes);
        case LINES_RANGES:
                return line_of_byte_ranges(c->table, c->table_len, c->first_line, bytes);
        case LINES_LOCATIONS:
                return line_of_unit(c->table, c->table_len, c->first_line, bytes < 0 ? -1 : bytes / 2);
        }
        return 0;
}

int code_line(struct code *c, uint64_t instruction) {
        if (!c->line_known || c->line_at != instruction) {
                c->line = find_line(c, instruction);
                c->line_at = instruction;
                c->line_known = true;
        }
        return c->line;
}
