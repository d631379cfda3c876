/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator.h"
#include "scratch.h"
#include "test.h"

#include <elf.h>

static void write_library(const struct scratch *s, const char *name, unsigned char class, uint16_t machine,
                          uint16_t type, size_t len) {
        Elf64_Ehdr h = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, class },
                         .e_type = type,
                         .e_machine = machine };
        char path[512];
        FILE *f;

        scratch_path(s, name, path);
        f = fopen(path, "w");
        ASSERT_TRUE(f && fwrite(&h, 1, len, f) == len);
        ASSERT_OK(fclose(f));
}

static void choose(const struct scratch *s, enum allocator a, const char *preload, const char *threshold,
                   int expected, struct allocator_choice *ret) {
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_host_ struct host h = HOST_NULL;
        const char *user[] = { "OTHER=x", preload, threshold };
        const struct environment_options o = {
                .framework = FRAMEWORK_PLAIN, .user = user, .n_user = preload ? threshold ? 3 : 2 : 1
        };
        char why[256];

        ASSERT_OK(environment_build(&i, &o, &e, why));
        ASSERT_OK(host_open(s->path, &h));
        ASSERT_EQ(allocator_choose(&h, a, &e, ret), expected);
}

static void expect(const struct scratch *s, enum allocator a, const char *theirs, const char *preload,
                   bool threshold, bool conflict) {
        _cleanup_allocator_choice_ struct allocator_choice c = { 0 };

        choose(s, a, theirs, NULL, 0, &c);
        if (preload)
                ASSERT_STREQ(c.preload, preload);
        else
                ASSERT_TRUE(c.preload == NULL);
        ASSERT_EQ(c.threshold != NULL, threshold);
        ASSERT_EQ(c.conflict != NULL, conflict);
        ASSERT_TRUE(c.note[0] != '\0');
}

#define OURS "LD_PRELOAD=" ALLOCATOR_LIBRARY

static void test_present(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct allocator_choice c = { 0 };

        /* As packages install it: a link to the versioned file. */
        write_library(&s, "usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.9", ELFCLASS64, EM_X86_64, ET_DYN,
                      sizeof(Elf64_Ehdr));
        scratch_link(&s, "usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", "libtcmalloc.so.4.5.9");

        expect(&s, ALLOCATOR_AUTO, NULL, OURS, true, false);
        expect(&s, ALLOCATOR_TCMALLOC, NULL, OURS, true, false);
        expect(&s, ALLOCATOR_TCMALLOC, "LD_PRELOAD=/lib/other.so", OURS ":/lib/other.so", true, true);
        expect(&s, ALLOCATOR_TCMALLOC, "LD_PRELOAD=/x/libtcmalloc.so.4", NULL, true, false);
        /* auto never touches what a user preloads, not even "nothing". */
        expect(&s, ALLOCATOR_AUTO, "LD_PRELOAD=", NULL, false, false);
        expect(&s, ALLOCATOR_AUTO, "LD_PRELOAD=/lib/jemalloc.so", NULL, false, false);
        /* glibc: tcmalloc goes, the rest stays; what is inherited goes, too. */
        expect(&s, ALLOCATOR_GLIBC, NULL, "LD_PRELOAD", false, false);
        expect(&s, ALLOCATOR_GLIBC, "LD_PRELOAD=/lib/a.so:/usr/lib/libtcmalloc_minimal.so.4 /lib/b.so",
               "LD_PRELOAD=/lib/a.so:/lib/b.so", false, true);
        expect(&s, ALLOCATOR_GLIBC, "LD_PRELOAD=libtcmalloc.so.4", "LD_PRELOAD", false, true);
        expect(&s, ALLOCATOR_GLIBC, "LD_PRELOAD=/lib/a.so", NULL, false, false);

        choose(&s, ALLOCATOR_TCMALLOC, "LD_PRELOAD=/x/libtcmalloc.so.4",
               "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD=5", 0, &c);
        ASSERT_TRUE(c.threshold == NULL);
        allocator_choice_clear(&c);
        choose(&s, ALLOCATOR_AUTO, NULL, NULL, 0, &c);
        ASSERT_STREQ(c.threshold, "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD=107374182400");
        allocator_choice_clear(&c);
}

static void test_missing(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct allocator_choice c = { 0 };

        expect(&s, ALLOCATOR_AUTO, NULL, "LD_PRELOAD", false, false);
        choose(&s, ALLOCATOR_TCMALLOC, NULL, NULL, -ENOENT, &c);
        ASSERT_TRUE(strstr(c.note, ALLOCATOR_LIBRARY) && strstr(c.note, "libgoogle-perftools4"));
        allocator_choice_clear(&c);
}

/* Each of these would be ignored by ld.so with a line of noise per process, or not at all. */
static void test_not_loadable(void) {
        static const struct {
                unsigned char class;
                uint16_t machine, type;
                size_t len;
        } bad[] = {
                { ELFCLASS32, EM_X86_64, ET_DYN, sizeof(Elf64_Ehdr) },
                { ELFCLASS64, EM_AARCH64, ET_DYN, sizeof(Elf64_Ehdr) },
                { ELFCLASS64, EM_X86_64, ET_EXEC, sizeof(Elf64_Ehdr) },
                { ELFCLASS64, EM_X86_64, ET_DYN, sizeof(Elf64_Ehdr) - 1 },
                { ELFCLASS64, EM_X86_64, ET_DYN, 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                struct allocator_choice c = { 0 };

                write_library(&s, "usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", bad[i].class, bad[i].machine,
                              bad[i].type, bad[i].len);
                expect(&s, ALLOCATOR_AUTO, NULL, "LD_PRELOAD", false, false);
                choose(&s, ALLOCATOR_TCMALLOC, NULL, NULL, -ENOEXEC, &c);
                allocator_choice_clear(&c);
        }
}

static void test_names(void) {
        enum allocator a;

        ASSERT_OK(allocator_parse("", &a));
        ASSERT_EQ(a, ALLOCATOR_AUTO);
        ASSERT_OK(allocator_parse("glibc", &a));
        ASSERT_EQ(a, ALLOCATOR_GLIBC);
        ASSERT_EQ(allocator_parse("jemalloc", &a), -EINVAL);
}

TEST_MAIN(test_present, test_missing, test_not_loadable, test_names)
