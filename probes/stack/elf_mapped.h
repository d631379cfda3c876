/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Symbols of an ELF file as the process has it mapped: no file is opened, so that it does not matter whether
 * the file is still there, and nothing but what is needed is read. Only what a file exports can be found
 * this way (.dynsym by its .gnu.hash): for the rest there is elf_symbol.h. Nothing read is trusted: every
 * table is bounded.
 */
#include "elf_symbol.h"
#include "memory.h"

#define ELF_MAPPED_SYMBOLS_MAX 8u /* looked for at a time */

/*
 * start: where the file's first byte is mapped. The values are in the file's own numbering, as those of
 * elf_symbols_find(); those not exported stay 0. *ret: without its section. -ENOEXEC: no x86-64 ELF file is
 * there, or one that exports nothing in this way; else as memory_read_many().
 */
int elf_mapped_find(struct memory *m, uint64_t start, struct elf_symbol *symbols, size_t n,
                    struct elf_answer *ret);

/* The address, in the file's own numbering, of the byte at start. -ENOEXEC, or as above. */
int elf_mapped_first_address(struct memory *m, uint64_t start, uint64_t *ret);
