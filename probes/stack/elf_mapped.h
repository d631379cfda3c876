/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Symbols of an ELF file as the process has it mapped: no file is opened, so that it does not matter
 * whether the file is still there, and nothing but what is needed is read. Only what a file exports can
 * be found this way (.dynsym by its .gnu.hash), as every CPython does that can load an extension module.
 * Nothing read is trusted: every table is bounded.
 */
#include "memory.h"

struct elf_symbol {
        const char *name;
        uint64_t value; /* address in the file's own numbering; 0: not found */
};

struct elf_answer {
        uint64_t first_address;   /* page-aligned p_vaddr of the segment that maps the start of the file */
        uint64_t data, data_size; /* of the first segment that can be written, what is zeroed included */
};

#define ELF_MAPPED_SYMBOLS_MAX 8u /* looked for at a time */

/*
 * start: where the file's first byte is mapped. The values of those not exported
 * stay 0. -ENOEXEC: no x86-64 ELF file is
 * there, or one that exports nothing in this way; else as memory_read_many().
 */
int elf_mapped_find(struct memory *m, uint64_t start, struct elf_symbol *symbols, size_t n,
                    struct elf_answer *ret);

/* The address, in the file's own numbering, of the byte at start. -ENOEXEC, or as above. */
int elf_mapped_first_address(struct memory *m, uint64_t start, uint64_t *ret);
