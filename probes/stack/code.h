/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Code objects of the target: file, qualified name, line table. Each is read once a generation; a new
 * generation is begun when a thread is read again, because a code object may have been freed and its place
 * taken meanwhile: what is known of one then counts when everything it was made of reads the same. Owned by
 * the cache, until it was not used throughout a capture or the cache is cleared; total size bounded by
 * CODE_BYTES_MAX.
 */
#include "layout.h"
#include "memory.h"

#define CODE_BYTES_MAX (16u * 1024 * 1024) /* names and tables of one process */
#define CODE_TABLE_MAX (1024u * 1024)      /* one line table */
#define CODE_MAX 65536u

/*
 * Addresses of the type objects that an object's type is checked against; 0 when the file does not name
 * them.
 */
struct python_types {
        uint64_t code, unicode, bytes;
};

struct code {
        struct code *next; /* in its bucket */
        uint64_t address;
        unsigned generation;
        int first_line;
        int64_t first_traceable; /* code units before it run before the function "is there" */
        enum line_format lines;
        uint64_t instructions; /* address of the first code unit; 0: instructions are counted from 0 */
        uint64_t units;        /* how many there are */
        uint64_t file_at, function_at, table_at; /* addresses of what follows */
        char *file, *function; /* UTF-8; function is co_qualname */
        uint8_t *table;        /* NULL: could not be had, lines are 0 */
        size_t table_len;
        uint64_t line_at; /* code_line(): where line is the line; none while line_known is not set */
        int line;
        bool line_known;
};

struct code_cache {
        struct code *buckets[1024];
        unsigned generation;
        unsigned begun; /* the first generation of this capture */
        size_t n, bytes;
};

void code_cache_clear(struct code_cache *c);

/* A new capture: no frame holds any code. Frees those that the last one did not use. */
void code_cache_begin(struct code_cache *c);

/* Asks m for what code_get() will read: the code object, or, once that is there, what it points to. */
int code_want(struct code_cache *c, struct memory *m, const struct python_layout *l, uint64_t address,
              bool parts);

/*
 * -EBADMSG: no code object is there; -E2BIG: a bound is reached; else as memory_read(). *ret is owned by the
 * cache.
 */
int code_get(struct code_cache *c, struct memory *m, const struct python_layout *l,
             const struct python_types *t, uint64_t address, struct code **ret);

/*
 * Whether a frame at this instruction (struct python_frame) can be of this code (before the first unit: not
 * begun).
 */
bool code_holds(const struct code *c, uint64_t instruction);

/* The line of a frame at this instruction; 0 when unknown. Remembers the last: many frames of a code object
 * are at the same place. */
int code_line(struct code *c, uint64_t instruction);

/*
 * The line tables themselves; pure. By that of CPython 3.11 and later (co_linetable; format:
 * Objects/locations.md of CPython). unit: index of the code unit (2 bytes each) counted from the first
 * instruction; negative means before it, which is the first line by definition. Returns the line (≥1), or 0
 * when the table names none or is malformed.
 */
int line_of_unit(const uint8_t *table, size_t len, int first_line, int64_t unit);

/* The same by co_lnotab, to CPython 3.9 (Objects/lnotab_notes.txt of it). byte: offset of the
 * instruction. */
int line_of_byte_lnotab(const uint8_t *table, size_t len, int first_line, int64_t byte);

/* The same by co_linetable of CPython 3.10: pairs of a length in bytes and a step in lines, -128 for no
 * line. */
int line_of_byte_ranges(const uint8_t *table, size_t len, int first_line, int64_t byte);
