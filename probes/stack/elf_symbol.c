/* SPDX-License-Identifier: Apache-2.0 */
#include "elf_symbol.h"

#include <dlfcn.h>
#include <gelf.h>

/* What is used of libelf, which is loaded when it is needed: most programs are read without (elf_mapped.h).
 */
#define FUNCTIONS(X) \
        X(elf_version) X(elf_begin) X(elf_end) X(elf_kind) X(elf_nextscn) X(elf_getdata) X(elf_strptr) \
                X(elf_getshdrstrndx) X(elf_getphdrnum) X(gelf_getclass) X(gelf_getehdr) X(gelf_getshdr) \
                        X(gelf_getsym) X(gelf_getphdr)

struct file {
        void *library;
        Elf *elf;
#define MEMBER(name) __typeof__(name) *name;
        FUNCTIONS(MEMBER)
};

static void file_close(struct file *f) {
        if (f->elf)
                (void) f->elf_end(f->elf); /* nothing was written */
        if (f->library)
                (void) dlclose(f->library); /* nothing of it is used any more */
}

static int file_open(struct file *f, int fd) {
        GElf_Ehdr header;

        f->library = dlopen("libelf.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!f->library)
                return -ENOPKG;
#define LOAD(name) \
        f->name = (__typeof__(name) *) dlsym(f->library, #name); \
        if (!f->name) \
                return -ENOPKG;
        FUNCTIONS(LOAD)
        if (f->elf_version(EV_CURRENT) == EV_NONE)
                return -EOPNOTSUPP;
        f->elf = f->elf_begin(fd, ELF_C_READ, NULL);
        if (!f->elf || f->elf_kind(f->elf) != ELF_K_ELF || f->gelf_getclass(f->elf) != ELFCLASS64 ||
            !f->gelf_getehdr(f->elf, &header) || header.e_machine != EM_X86_64)
                return -ENOEXEC;
        return 0;
}

static void match(struct elf_symbol *symbols, size_t n, const char *name, uint64_t value) {
        for (size_t i = 0; i < n; i++)
                if (!symbols[i].value && streq(symbols[i].name, name))
                        symbols[i].value = value;
}

static int search_table(const struct file *f, Elf_Scn *scn, const GElf_Shdr *header,
                        struct elf_symbol *symbols, size_t n) {
        Elf_Data *data;

        if (header->sh_size > ELF_TABLE_MAX)
                return -E2BIG;
        data = f->elf_getdata(scn, NULL);
        if (!data || header->sh_entsize != sizeof(Elf64_Sym))
                return 0;
        for (size_t i = 0; i < data->d_size / sizeof(Elf64_Sym) && i < INT32_MAX; i++) {
                GElf_Sym symbol;
                const char *name;

                if (!f->gelf_getsym(data, (int) i, &symbol) || symbol.st_shndx == SHN_UNDEF ||
                    GELF_ST_TYPE(symbol.st_info) != STT_OBJECT)
                        continue;
                name = f->elf_strptr(f->elf, header->sh_link, symbol.st_name);
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

static int search_sections(const struct file *f, GElf_Word type, struct elf_symbol *symbols, size_t n) {
        GElf_Shdr header;

        for (Elf_Scn *scn = NULL; (scn = f->elf_nextscn(f->elf, scn));) {
                int r;

                if (!f->gelf_getshdr(scn, &header) || header.sh_type != type)
                        continue;
                r = search_table(f, scn, &header, symbols, n);
                if (r < 0)
                        return r;
        }
        return 0;
}

static uint64_t section_address(const struct file *f, const char *wanted) {
        GElf_Shdr header;
        size_t names;

        if (f->elf_getshdrstrndx(f->elf, &names) != 0)
                return 0;
        for (Elf_Scn *scn = NULL; (scn = f->elf_nextscn(f->elf, scn));) {
                const char *name;

                if (!f->gelf_getshdr(scn, &header))
                        continue;
                name = f->elf_strptr(f->elf, names, header.sh_name);
                if (name && streq(name, wanted))
                        return header.sh_addr;
        }
        return 0;
}

/* The segment at file offset 0 (rounded down to a page), from which the place in memory is known, and the
 * data. */
static int find_segments(const struct file *f, struct elf_answer *ret) {
        bool found = false;
        size_t n;

        if (f->elf_getphdrnum(f->elf, &n) != 0)
                return -ENOEXEC;
        for (size_t i = 0; i < n && i < UINT16_MAX; i++) {
                GElf_Phdr header;

                if (!f->gelf_getphdr(f->elf, (int) i, &header))
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
        _cleanup_(file_close) struct file f = { 0 };
        struct elf_answer answer = { 0 };
        int r = file_open(&f, fd);

        if (r == 0)
                r = find_segments(&f, &answer);
        if (r == 0 && n > 0)
                r = search_sections(&f, SHT_DYNSYM, symbols, n);
        if (r == 0 && !all_found(symbols, n))
                r = search_sections(&f, SHT_SYMTAB, symbols, n);
        if (r < 0)
                return r;
        answer.section = section_address(&f, section);
        *ret = answer;
        return 0;
}
