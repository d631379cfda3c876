/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Symbols and sections of an ELF file by name (libelf). The file belongs to a foreign process: it is read,
 * never mapped (a file cut short meanwhile would end us with SIGBUS), and bounded.
 */
#include "base.h"

#define ELF_TABLE_MAX (64u * 1024 * 1024) /* a symbol table larger than this is not searched */

struct elf_symbol {
        const char *name;
        uint64_t value; /* address in the file's own numbering; 0: not found */
};

struct elf_answer {
        uint64_t first_address;   /* page-aligned p_vaddr of the segment that maps the start of the file */
        uint64_t section;         /* address of the section asked for; 0: none */
        uint64_t data, data_size; /* of the first segment that can be written, what is zeroed included */
};

/*
 * Looks for the symbols in .dynsym, then, for those not found, in .symtab. -ENOEXEC: no x86-64 ELF program
 * or library; -ENOPKG: libelf is not installed; -EIO from reading; -E2BIG: a table is too large. The values
 * are filled in even when some are missing.
 */
int elf_symbols_find(int fd, struct elf_symbol *symbols, size_t n, const char *section,
                     struct elf_answer *ret);
