/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The version of a CPython before 3.11, which has no Py_Version: found in the text that sys.version is made
 * of ("3.10.13 (main, …"; Py_GetVersion() of CPython's Python/getversion.c writes it at start), somewhere in
 * the data of the file.
 */
#include "memory.h"

#define VERSION_DATA_MAX (16u * 1024 * 1024) /* data that is searched */

/*
 * "3.10.13 (": true and the number as Py_Version has it (0x030A0DF0). Candidates ("3.9.0rc1 (") and a "+"
 * are understood.
 */
bool version_parse(const char *text, size_t len, uint64_t *ret);

/*
 * Searches size bytes at address. -ENOENT: no such text; -ENOTUNIQ: texts of two different versions; else as
 * memory_read(). *ret_at: where the text is.
 */
int version_search(struct memory *m, uint64_t address, uint64_t size, uint64_t *ret, uint64_t *ret_at);
