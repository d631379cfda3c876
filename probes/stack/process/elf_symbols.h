/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Symbols and sections of an ELF file by name, from memory or from the file. Nothing read is trusted: every
 * table is bounded.
 *
 * As the process has the file mapped: no file is opened, so that it does not matter whether the file is
 * still there, and nothing but what is needed is read. Only what a file exports can be found like this
 * (.dynsym by its .gnu.hash).
 *
 * For the rest the file itself, by libelf. It belongs to a foreign process: it is read, never mapped (a file
 * cut short meanwhile would end us with SIGBUS).
 */
#include "memory.h"

#define ELF_TABLE_MAX (64u * 1024 * 1024) /* a symbol table larger than this is not searched */

struct elf_symbol {
        const char *name;
        uint64_t value; /* address in the file's own numbering; 0: not found */
};

struct elf_answer {
        uint64_t first_address;   /* page-aligned p_vaddr of the segment that maps the start of the file */
        uint64_t begin_address;   /* of the first segment, down to its alignment, as libdw reckons it */
        uint64_t end_address;     /* behind the last byte of all segments */
        unsigned segments;        /* how many are loaded */
        uint64_t section;         /* address of the section asked for; 0: none */
        uint64_t data, data_size; /* of the first segment that can be written, what is zeroed included */
};

#define ELF_MAPPED_SYMBOLS_MAX 8u /* looked for at a time */

/*
 * start: where the file's first byte is mapped. The values are in the file's own numbering, as those of
 * elf_symbols_find(); those not exported stay 0. *ret: without its section. -ENOEXEC: no x86-64 ELF file is
 * there, or one that exports nothing like this; else as memory_read_many().
 */
int elf_mapped_find(struct memory *m, uint64_t start, struct elf_symbol *symbols, size_t n,
                    struct elf_answer *ret);

/* From where to where libdw takes the file to be that is mapped at start. -ENOEXEC, or as above. */
int elf_mapped_span(struct memory *m, uint64_t start, uint64_t *ret_begin, uint64_t *ret_end);

/*
 * Looks for the symbols in .dynsym, then, for those not found, in .symtab. -ENOEXEC: no x86-64 ELF program
 * or library; -ENOPKG: libelf is not installed; -EIO from reading; -E2BIG: a table is too large. The values
 * are filled in even when some are missing.
 */
int elf_symbols_find(int fd, struct elf_symbol *symbols, size_t n, const char *section,
                     struct elf_answer *ret);
