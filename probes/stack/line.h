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
