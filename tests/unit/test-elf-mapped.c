/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols of a mapped ELF file, read as those of another process are: this one's own C library, and files
 * that are none. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include "elf_symbols.h"
#include "test.h"

struct image {
        uint8_t bytes[8192];
        uint64_t calls;
};

static ssize_t image_readv(void *userdata, const struct iovec *local, const struct iovec *remote, size_t n) {
        struct image *i = userdata;
        ssize_t done = 0;

        i->calls++;
        for (size_t k = 0; k < n; k++) {
                uint64_t at = (uint64_t) (uintptr_t) remote[k].iov_base;

                if (at > sizeof(i->bytes) || remote[k].iov_len > sizeof(i->bytes) - at)
                        return done > 0 ? done : -EFAULT;
                memcpy(local[k].iov_base, i->bytes + at, remote[k].iov_len);
                done += (ssize_t) remote[k].iov_len;
        }
        return done;
}

static void test_own_library(void) {
        struct elf_symbol s[] = {
                { "environ", 0 }, { "no_such_symbol_anywhere", 0 }, { "_IO_2_1_stdout_", 0 }, { "malloc", 0 }
        };
        _cleanup_memory_ struct memory m = { 0 };
        void *environment = dlsym(RTLD_DEFAULT, "environ"), *out = dlsym(RTLD_DEFAULT, "_IO_2_1_stdout_");
        pid_t pid = getpid();
        struct elf_answer a;
        uint64_t start, bias, begin, end;
        Dl_info info;

        ASSERT_TRUE(environment && out && dladdr(out, &info) != 0);
        start = (uint64_t) (uintptr_t) info.dli_fbase;
        memory_init(&m, memory_source_process(&pid));
        ASSERT_OK(elf_mapped_find(&m, start, s, ELEMENTSOF(s), &a));
        bias = start - a.first_address;
        ASSERT_OK(elf_mapped_span(&m, start, &begin, &end));
        ASSERT_EQ(begin, start);
        ASSERT_TRUE(end > (uint64_t) (uintptr_t) out);
        ASSERT_EQ(s[1].value, 0);
        ASSERT_EQ(s[2].value + bias, (uint64_t) (uintptr_t) out);
        ASSERT_TRUE(s[3].value != 0); /* a function is found, too */
        ASSERT_TRUE(s[0].value + bias >= a.data + bias && s[0].value < a.data + a.data_size);
        ASSERT_TRUE(s[2].value >= a.data && s[2].value < a.data + a.data_size);
        ASSERT_EQ(m.n_pages, 0); /* nothing is kept */
}

#define DYNAMIC 0x400u
#define HASH 0x600u
#define SYMBOLS 0x1000u
#define NAMES 0x1800u

/* One symbol, "x", in one bucket; chain: its word in the chain. */
static void make(struct image *i, uint32_t buckets, uint32_t chain) {
        const Elf64_Ehdr h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
                               .e_type = ET_DYN,
                               .e_machine = EM_X86_64,
                               .e_phoff = sizeof(h),
                               .e_phentsize = sizeof(Elf64_Phdr),
                               .e_phnum = 2 };
        const Elf64_Phdr p[] = {
                { .p_type = PT_LOAD, .p_flags = PF_W, .p_memsz = sizeof(i->bytes) },
                { .p_type = PT_DYNAMIC, .p_vaddr = DYNAMIC, .p_memsz = 4 * sizeof(Elf64_Dyn) }
        };
        const Elf64_Dyn d[] = { { DT_SYMTAB, { SYMBOLS } },
                                { DT_STRTAB, { NAMES } },
                                { DT_GNU_HASH, { HASH } },
                                { DT_NULL, { 0 } } };
        const uint32_t hash[] = { buckets, 1, 0, 0, 1 /* the bucket */ };
        const Elf64_Sym s = { .st_name = 1,
                              .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
                              .st_shndx = 1,
                              .st_value = 0x777 };

        *i = (struct image){ 0 };
        memcpy(i->bytes, &h, sizeof(h));
        memcpy(i->bytes + sizeof(h), p, sizeof(p));
        memcpy(i->bytes + DYNAMIC, d, sizeof(d));
        memcpy(i->bytes + HASH, hash, sizeof(hash));
        for (size_t at = HASH + sizeof(hash); at + 4 <= SYMBOLS; at += 4)
                memcpy(i->bytes + at, &chain, 4);
        for (size_t at = SYMBOLS + sizeof(s); at + sizeof(s) <= NAMES; at += sizeof(s))
                memcpy(i->bytes + at, &s, sizeof(s));
        memcpy(i->bytes + NAMES + 1, "x", 2);
}

static int find(struct image *i, uint64_t *ret) {
        struct elf_symbol s = { "x", 0 };
        _cleanup_memory_ struct memory m = { 0 };
        struct elf_answer a;
        int r;

        memory_init(&m, (struct memory_source){ image_readv, i, NULL });
        r = elf_mapped_find(&m, 0, &s, 1, &a);
        *ret = s.value;
        return r;
}

static void test_made(void) {
        uint32_t hash = 5381 * 33 + 'x';
        struct image i;
        uint64_t v;

        make(&i, 1, hash | 1);
        ASSERT_OK(find(&i, &v));
        ASSERT_EQ(v, 0x777);
        make(&i, 1, (hash + 2) | 1); /* another name's, and the last */
        ASSERT_OK(find(&i, &v));
        ASSERT_EQ(v, 0);
        make(&i, 0, hash);
        ASSERT_EQ(find(&i, &v), -ENOEXEC);
}

/* A chain without an end, of other names and of this one's hash with another name. */
static void test_chain_without_end(void) {
        uint32_t hash = 5381 * 33 + 'x';
        struct image i;
        uint64_t v;

        make(&i, 1, 2);
        (void) find(&i, &v);
        ASSERT_TRUE(i.calls < 1000);
        make(&i, 1, hash & ~1u);
        i.bytes[NAMES + 1] = 'y';
        (void) find(&i, &v);
        ASSERT_EQ(v, 0);
        ASSERT_TRUE(i.calls < 3000);
}

static void test_cut(void) {
        uint32_t hash = 5381 * 33 + 'x';
        struct image i;
        uint64_t v, seed = 88172645463325252u;

        for (unsigned n = 0; n < 20000; n++) {
                make(&i, 1, hash | 1);
                for (unsigned k = 0; k < 3; k++) {
                        seed ^= seed << 13;
                        seed ^= seed >> 7;
                        seed ^= seed << 17;
                        i.bytes[seed % (HASH + 64)] = (uint8_t) (seed >> 40);
                }
                (void) find(&i, &v);
                ASSERT_TRUE(i.calls < 5000);
        }
}

TEST_MAIN(test_own_library, test_made, test_chain_without_end, test_cut)
