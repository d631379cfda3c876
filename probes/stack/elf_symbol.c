/* SPDX-License-Identifier: Apache-2.0 */
#include "elf_symbol.h"

#include <gelf.h>

DEFINE_CLEANUP(Elf *, elf_end)

static void match(struct elf_symbol *symbols, size_t n, const char *name, uint64_t value) {
        for (size_t i = 0; i < n; i++)
                if (!symbols[i].value && streq(symbols[i].name, name))
                        symbols[i].value = value;
}

static int search_table(Elf *elf, Elf_Scn *scn, const GElf_Shdr *header, struct elf_symbol *symbols,
                        size_t n) {
        Elf_Data *data;

        if (header->sh_size > ELF_TABLE_MAX)
                return -E2BIG;
        data = elf_getdata(scn, NULL);
        if (!data || header->sh_entsize != sizeof(Elf64_Sym))
                return 0;
        for (size_t i = 0; i < data->d_size / sizeof(Elf64_Sym) && i < INT32_MAX; i++) {
                GElf_Sym symbol;
                const char *name;

                if (!gelf_getsym(data, (int) i, &symbol) || symbol.st_shndx == SHN_UNDEF ||
                    GELF_ST_TYPE(symbol.st_info) != STT_OBJECT)
                        continue;
                name = elf_strptr(elf, header->sh_link, symbol.st_name);
                if (name)
                        match(symbols, n, name, symbol.st_value);
        }
        return 0;
}

static bool all_found(const struct elf_symbol *symbols, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (!symbols[i].value)
                        return false;
        return true;
}

static int search_sections(Elf *elf, GElf_Word type, struct elf_symbol *symbols, size_t n) {
        GElf_Shdr header;

        for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
                int r;

                if (!gelf_getshdr(scn, &header) || header.sh_type != type)
                        continue;
                r = search_table(elf, scn, &header, symbols, n);
                if (r < 0)
                        return r;
        }
        return 0;
}

static uint64_t section_address(Elf *elf, const char *wanted) {
        GElf_Shdr header;
        size_t names;

        if (elf_getshdrstrndx(elf, &names) != 0)
                return 0;
        for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
                const char *name;

                if (!gelf_getshdr(scn, &header))
                        continue;
                name = elf_strptr(elf, names, header.sh_name);
                if (name && streq(name, wanted))
                        return header.sh_addr;
        }
        return 0;
}

/* The segment at file offset 0 (rounded down to a page), from which the place in memory is known, and the
 * data. */
static int find_segments(Elf *elf, struct elf_answer *ret) {
        bool found = false;
        size_t n;

        if (elf_getphdrnum(elf, &n) != 0)
                return -ENOEXEC;
        for (size_t i = 0; i < n && i < UINT16_MAX; i++) {
                GElf_Phdr header;

                if (!gelf_getphdr(elf, (int) i, &header))
                        return -ENOEXEC;
                if (header.p_type != PT_LOAD)
                        continue;
                if (!found && header.p_offset < 4096) {
                        ret->first_address = header.p_vaddr - header.p_vaddr % 4096;
                        found = true;
                }
                if ((header.p_flags & PF_W) && !ret->data_size) {
                        ret->data = header.p_vaddr;
                        ret->data_size = header.p_memsz;
                }
        }
        return found ? 0 : -ENOEXEC;
}

int elf_symbols_find(int fd, struct elf_symbol *symbols, size_t n, const char *section,
                     struct elf_answer *ret) {
        _cleanup_(elf_endp) Elf *elf = NULL;
        struct elf_answer answer = { 0 };
        GElf_Ehdr header;
        int r;

        if (elf_version(EV_CURRENT) == EV_NONE)
                return -EOPNOTSUPP;
        elf = elf_begin(fd, ELF_C_READ, NULL);
        if (!elf || elf_kind(elf) != ELF_K_ELF || gelf_getclass(elf) != ELFCLASS64 ||
            !gelf_getehdr(elf, &header) || header.e_machine != EM_X86_64)
                return -ENOEXEC;
        r = find_segments(elf, &answer);
        if (r == 0 && n > 0)
                r = search_sections(elf, SHT_DYNSYM, symbols, n);
        if (r == 0 && !all_found(symbols, n))
                r = search_sections(elf, SHT_SYMTAB, symbols, n);
        if (r < 0)
                return r;
        answer.section = section_address(elf, section);
        *ret = answer;
        return 0;
}
