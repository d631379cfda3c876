/* SPDX-License-Identifier: Apache-2.0 */
#include "elf_symbols.h"

#include <assert.h>
#include <dlfcn.h>
#include <elf.h>
#include <gelf.h>

#define SEGMENTS_MAX 32u
#define DYNAMIC_MAX 128u  /* entries */
#define CHAIN_PART 16u    /* hashes of one chain that are read at once */
#define CHAIN_MAX 1024u   /* symbols of one bucket that are looked at */
#define NAME_MAX_LEN 64u  /* of a symbol that is looked for, with its NUL */

/*
 * What is taken of each segment that is loaded. *found: the one that maps the start of the file was there,
 * from which the place in memory is known.
 */
static void take_segment(struct elf_answer *a, bool *found, const Elf64_Phdr *p) {
        if (p->p_type != PT_LOAD)
                return;
        if (a->segments++ == 0)
                a->begin_address = p->p_align ? p->p_vaddr & ~(p->p_align - 1) : p->p_vaddr;
        a->end_address = MAX(a->end_address, p->p_vaddr + p->p_memsz);
        if (!*found && p->p_offset < 4096) {
                a->first_address = p->p_vaddr - p->p_vaddr % 4096;
                *found = true;
        }
        if ((p->p_flags & PF_W) && !a->data_size) {
                a->data = p->p_vaddr;
                a->data_size = p->p_memsz;
        }
}

/* --- As it is mapped -------------------------------------------------------------------------------- */

/* Addresses in the process. */
struct tables {
        uint64_t symbols, names, buckets, chains;
        uint32_t n_buckets, first; /* the first symbol that is in the hash table */
};

static bool is_x86_64(const Elf64_Ehdr *h) {
        return memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64 &&
               h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_machine == EM_X86_64 &&
               (h->e_type == ET_EXEC || h->e_type == ET_DYN) && h->e_phentsize == sizeof(Elf64_Phdr);
}

static int read_mapped(struct memory *m, uint64_t address, void *buf, size_t len) {
        struct iovec local = { buf, len };

        return memory_read_many(m, &local, &address, 1);
}

/* *ret_dynamic, *ret_size: of the table that the dynamic linker uses. */
static int read_segments(struct memory *m, uint64_t start, struct elf_answer *ret, uint64_t *ret_dynamic,
                         uint64_t *ret_size) {
        Elf64_Phdr p[SEGMENTS_MAX];
        bool found = false;
        Elf64_Ehdr h;
        int r = read_mapped(m, start, &h, sizeof(h));

        if (r < 0)
                return r;
        if (!is_x86_64(&h) || h.e_phnum > SEGMENTS_MAX || h.e_phoff > MEMORY_PAGE)
                return -ENOEXEC;
        r = read_mapped(m, start + h.e_phoff, p, h.e_phnum * sizeof(p[0]));
        *ret_size = 0;
        for (size_t i = 0; r == 0 && i < h.e_phnum; i++) {
                if (p[i].p_type == PT_DYNAMIC) {
                        *ret_dynamic = p[i].p_vaddr;
                        *ret_size = p[i].p_memsz;
                }
                take_segment(ret, &found, &p[i]);
        }
        return r < 0 ? r : found ? 0 : -ENOEXEC;
}

int elf_mapped_span(struct memory *m, uint64_t start, uint64_t *ret_begin, uint64_t *ret_end) {
        struct elf_answer answer = { 0 };
        uint64_t dynamic, size;
        int r = read_segments(m, start, &answer, &dynamic, &size);

        if (r < 0)
                return r;
        *ret_begin = start - answer.first_address + answer.begin_address;
        *ret_end = start - answer.first_address + answer.end_address;
        return *ret_end > *ret_begin ? 0 : -ENOEXEC;
}

/* glibc's dynamic linker puts addresses where the file has its own numbering, musl's does not. */
static uint64_t in_process(uint64_t value, uint64_t start, uint64_t bias) {
        return value >= start ? value : value + bias;
}

static int read_tables(struct memory *m, uint64_t start, uint64_t bias, uint64_t dynamic, uint64_t size,
                       struct tables *ret) {
        Elf64_Dyn d[DYNAMIC_MAX];
        uint32_t head[4]; /* buckets, the first symbol, words of the Bloom filter, its shift */
        size_t n = MIN(size / sizeof(d[0]), (uint64_t) DYNAMIC_MAX);
        uint64_t hash = 0;
        int r = read_mapped(m, dynamic + bias, d, n * sizeof(d[0]));

        *ret = (struct tables){ 0 };
        for (size_t i = 0; r == 0 && i < n && d[i].d_tag != DT_NULL; i++) {
                uint64_t at = in_process(d[i].d_un.d_ptr, start, bias);

                if (d[i].d_tag == DT_SYMTAB)
                        ret->symbols = at;
                else if (d[i].d_tag == DT_STRTAB)
                        ret->names = at;
                else if (d[i].d_tag == DT_GNU_HASH)
                        hash = at;
        }
        if (r == 0 && (!ret->symbols || !ret->names || !hash))
                return -ENOEXEC; /* or no such table at all: the file is statically linked */
        if (r == 0)
                r = read_mapped(m, hash, head, sizeof(head));
        if (r < 0)
                return r;
        ret->n_buckets = head[0];
        ret->first = head[1];
        ret->buckets = hash + sizeof(head) + UINT64_C(8) * head[2];
        ret->chains = ret->buckets + UINT64_C(4) * head[0];
        return head[0] == 0 ? -ENOEXEC : 0;
}

static uint32_t hash_of(const char *name) {
        uint32_t h = 5381;

        for (; *name; name++)
                h = h * 33 + (uint8_t) *name;
        return h;
}

/* Whether the symbol at index is the one that is looked for: then its value is taken. */
static int look_at_symbol(struct memory *m, const struct tables *t, uint32_t index,
                          struct elf_symbol *wanted) {
        size_t len = strlen(wanted->name) + 1;
        char name[NAME_MAX_LEN];
        Elf64_Sym found;
        int r = len > sizeof(name)
                        ? -E2BIG
                        : read_mapped(m, t->symbols + index * sizeof(found), &found, sizeof(found));

        if (r == 0)
                r = read_mapped(m, t->names + found.st_name, name, len);
        if (r == 0 && memcmp(name, wanted->name, len) == 0 && found.st_shndx != SHN_UNDEF &&
            (ELF64_ST_TYPE(found.st_info) == STT_OBJECT || ELF64_ST_TYPE(found.st_info) == STT_FUNC))
                wanted->value = found.st_value;
        return r;
}

/* The symbols of one bucket, from index on, in whose hashes the lowest bit marks the last one. */
static int walk_chain(struct memory *m, const struct tables *t, uint32_t hash, uint32_t index,
                      struct elf_symbol *wanted) {
        uint32_t part[CHAIN_PART];

        if (index < t->first)
                return 0; /* an empty bucket */
        for (size_t n = 0; n < CHAIN_MAX; n++, index++) {
                size_t at = n % CHAIN_PART;
                int r = at > 0 ? 0
                               : read_mapped(m, t->chains + UINT64_C(4) * (index - t->first), part,
                                          sizeof(part));

                if (r == 0 && (part[at] | 1) == (hash | 1))
                        r = look_at_symbol(m, t, index, wanted);
                if (r < 0 || wanted->value || (part[at] & 1))
                        return r;
        }
        return 0;
}

/* The buckets of all in one call. */
static int search_all(struct memory *m, const struct tables *t, struct elf_symbol *symbols, size_t n) {
        uint32_t hash[ELF_MAPPED_SYMBOLS_MAX], index[ELF_MAPPED_SYMBOLS_MAX];
        struct iovec local[ELF_MAPPED_SYMBOLS_MAX];
        uint64_t remote[ELF_MAPPED_SYMBOLS_MAX];
        int r;

        for (size_t i = 0; i < n; i++) {
                hash[i] = hash_of(symbols[i].name);
                local[i] = (struct iovec){ &index[i], sizeof(index[i]) };
                remote[i] = t->buckets + UINT64_C(4) * (hash[i] % t->n_buckets);
        }
        r = memory_read_many(m, local, remote, n);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = walk_chain(m, t, hash[i], index[i], &symbols[i]);
        return r;
}

int elf_mapped_find(struct memory *m, uint64_t start, struct elf_symbol *symbols, size_t n,
                    struct elf_answer *ret) {
        struct elf_answer answer = { 0 };
        uint64_t dynamic = 0, size = 0;
        struct tables t;
        int r = read_segments(m, start, &answer, &dynamic, &size);

        assert(n <= ELF_MAPPED_SYMBOLS_MAX);
        if (r == 0)
                r = read_tables(m, start, start - answer.first_address, dynamic, size, &t);
        if (r < 0)
                return r;
        *ret = answer;
        return search_all(m, &t, symbols, n);
}

/* --- The file --------------------------------------------------------------------------------------- */

/* What is used of libelf, which is loaded when it is needed: most programs are read
 * without (elf_mapped_find()). */
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

static void match_symbols(struct elf_symbol *symbols, size_t n, const char *name, uint64_t value) {
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
                        match_symbols(symbols, n, name, symbol.st_value);
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

static int find_segments(const struct file *f, struct elf_answer *ret) {
        bool found = false;
        size_t n;

        if (f->elf_getphdrnum(f->elf, &n) != 0)
                return -ENOEXEC;
        for (size_t i = 0; i < n && i < UINT16_MAX; i++) {
                GElf_Phdr header;

                if (!f->gelf_getphdr(f->elf, (int) i, &header))
                        return -ENOEXEC;
                take_segment(ret, &found, &header);
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
