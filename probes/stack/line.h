/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which line an instruction belongs to, by the location table of CPython 3.11 and later (co_linetable;
 * format: Objects/locations.md of CPython). Pure.
 */
#include "base.h"

/*
 * unit: index of the code unit (2 bytes each) counted from the first instruction; negative means before it,
 * which is the first line by definition. Returns the line (≥1), or 0 when the table names none or is
 * malformed.
 */
int line_of_unit(const uint8_t *table, size_t len, int first_line, int64_t unit);

/* The same by co_lnotab, to CPython 3.9 (Objects/lnotab_notes.txt of it). byte: offset of the instruction.
 */
int line_of_byte_lnotab(const uint8_t *table, size_t len, int first_line, int64_t byte);

/* The same by co_linetable of CPython 3.10: pairs of a length in bytes and a step in lines, -128 for no
 * line. */
int line_of_byte_ranges(const uint8_t *table, size_t len, int first_line, int64_t byte);
