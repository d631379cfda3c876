/* SPDX-License-Identifier: Apache-2.0 */
/* The pure parts of tpu-stack, and the whole walk over memory that means harm. */
#include <fcntl.h>

#include "capture.h"
#include "line.h"
#include "maps.h"
#include "text.h"
#include "version.h"

#include "layout311.h"
#include "test.h"

/*
 * --- line tables ----------------------------------------------------------------------------------------
 */

static void test_line_table(void) {
        /* First line 10: two units on it, one with no line, three of line 12, one back on 11 (long form),
         * two a line further. */
        const uint8_t table[] = {
                0x80 | 0 << 3 | 1,  0x00,             /* short form, 2 units */
                0x80 | 15 << 3 | 0,                   /* none, 1 unit */
                0x80 | 12 << 3 | 2, 0x01, 0x02,       /* one line form, +2, 3 units */
                0x80 | 14 << 3 | 0, 0x03, 0,    0, 0, /* long form, -1, 1 unit */
                0x80 | 13 << 3 | 1, 0x02,             /* no columns, +1, 2 units */
        };
        const int wanted[] = { 10, 10, 0, 12, 12, 12, 11, 12, 12, 0, 0 };

        for (size_t i = 0; i < ELEMENTSOF(wanted); i++)
                ASSERT_EQ(line_of_unit(table, sizeof(table), 10, (int64_t) i), wanted[i]);
        ASSERT_EQ(line_of_unit(table, sizeof(table), 10, -1), 10);
}

static void test_line_table_large_delta(void) {
        const uint8_t table[] = { 0x80 | 13 << 3 | 7, 0x40 | 0x30, 0x40 | 0x3A,
                                  0x01 }; /* (0x30 | 0x3A << 6 | 1 << 12) >> 1 = 3928 */

        ASSERT_EQ(line_of_unit(table, sizeof(table), 1, 7), 1 + (0x30 + (0x3A << 6) + (1 << 12)) / 2);
}

static void test_line_table_malformed(void) {
        const uint8_t no_entry[] = { 0x01, 0x02 }, unfinished[] = { 0x80 | 13 << 3, 0x7F },
                      below[] = { 0x80 | 13 << 3, 0x3F };
        const uint8_t endless[] = { 0x80 | 13 << 3, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x01 };

        ASSERT_EQ(line_of_unit(no_entry, 2, 1, 0), 0);
        ASSERT_EQ(line_of_unit(unfinished, 2, 1, 0), 0);
        ASSERT_EQ(line_of_unit(below, 2, 1, 0), 0);
        ASSERT_EQ(line_of_unit(endless, sizeof(endless), 1, 0), 0);
        ASSERT_EQ(line_of_unit(NULL, 0, 1, 0), 0);
        ASSERT_EQ(line_of_unit(NULL, 0, -5, -1), 0);
}

/* co_lnotab, to 3.9: pairs of bytes and of lines, which may go back. */
static void test_line_lnotab(void) {
        const uint8_t table[] = { 4, 1, 6, 0xFE /* -2 */, 255, 0, 1, 5 };

        ASSERT_EQ(line_of_byte_lnotab(table, sizeof(table), 10, -2), 10);
        ASSERT_EQ(line_of_byte_lnotab(table, sizeof(table), 10, 0), 10);
        ASSERT_EQ(line_of_byte_lnotab(table, sizeof(table), 10, 2), 10);
        ASSERT_EQ(line_of_byte_lnotab(table, sizeof(table), 10, 4), 11);
        ASSERT_EQ(line_of_byte_lnotab(table, sizeof(table), 10, 10), 9);
        ASSERT_EQ(line_of_byte_lnotab(table, sizeof(table), 10, 264), 9);
        ASSERT_EQ(line_of_byte_lnotab(table, sizeof(table), 10, 266), 14);
        ASSERT_EQ(line_of_byte_lnotab(table, 0, 10, 100), 10); /* all on the first line */
        ASSERT_EQ(line_of_byte_lnotab(table, sizeof(table), -100, 4), 0);
}

/* co_linetable of 3.10: a length, and the step to the line that the whole range has. */
static void test_line_ranges(void) {
        const uint8_t table[] = { 4, 1, 2, 0x80, 6, 0xFE, 0, 20, 2, 0 };

        ASSERT_EQ(line_of_byte_ranges(table, sizeof(table), 10, -2), 10);
        ASSERT_EQ(line_of_byte_ranges(table, sizeof(table), 10, 2), 11);
        ASSERT_EQ(line_of_byte_ranges(table, sizeof(table), 10, 4), 0); /* on no line */
        ASSERT_EQ(line_of_byte_ranges(table, sizeof(table), 10, 6), 9);
        ASSERT_EQ(line_of_byte_ranges(table, sizeof(table), 10, 12), 29);
        ASSERT_EQ(line_of_byte_ranges(table, sizeof(table), 10, 14), 0); /* past its end */
}

/*
 * --- versions -------------------------------------------------------------------------------------------
 */

static void test_version(void) {
        const struct {
                const char *text;
                uint64_t wanted; /* 0: none */
        } cases[] = {
                { "3.10.13 (main, Aug 2023)", 0x030A0DF0 },
                { "3.9.0rc2 (default", 0x030900C2 },
                { "3.8.18+ (heads/3.8", 0x030812F0 },
                { "3.10.13", 0 },
                { "3.10 (main", 0 },
                { "3.1000.1 (", 0 },
                { "3.300.1 (", 0 },
                { "x3.10.13 (", 0 },
                { "3.9.0rc (", 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                uint64_t v = 0;
                bool found = version_parse(cases[i].text, strlen(cases[i].text), &v);

                ASSERT_EQ(found, cases[i].wanted != 0);
                ASSERT_EQ(v, cases[i].wanted);
        }
        ASSERT_TRUE(python_layout_find(0x030812F0) && python_layout_find(0x030F00F0));
        ASSERT_FALSE(python_layout_find(0x030712F0) || python_layout_find(0x031000F0) ||
                     python_layout_find(0x030B00A4) || python_layout_find(0x1030B00F0));
}

/* What an interpreter of 3.14 says of itself: taken where it can be, refused where not. */
static void test_description(void) {
        const struct python_layout *row = python_layout_find(0x030E00F0);
        struct python_layout l;
        uint8_t bytes[LAYOUT_DEBUG_MAX] = "xdebugpy";
        const uint32_t *places = &row->debug.interpreters;
        const uint64_t plain = 48, version = 0x030E00F0, free_threaded = 1, huge = UINT64_C(1) << 40;

        ASSERT_EQ(python_layout_describe(row, version, bytes, &l), -EBADMSG); /* of another version */
        memcpy(bytes + 8, &version, 8);
        ASSERT_EQ(python_layout_describe(row, version, bytes, &l),
                  -EBADMSG); /* all zero: members do not fit */
        for (size_t i = 0; i < 26; i++)
                memcpy(bytes + places[i], &plain, 8);
#define SAY(member, value) memcpy(bytes + row->debug.member, &(uint64_t) { value }, 8)
        SAY(interpreters, row->runtime.interpreters + 64);
        SAY(frame_size, 88);
        SAY(code_size, 216);
        SAY(unicode_length, 16);
        SAY(unicode_state, 32);
        SAY(unicode_ascii_data, 56);
        SAY(object_type, 24);
        SAY(bytes_size, 32);
        SAY(bytes_data, 48);
        ASSERT_OK(python_layout_describe(row, version, bytes, &l));
        ASSERT_EQ(l.runtime.main_thread, row->runtime.main_thread + 64);
        ASSERT_EQ(l.code.first_traceable, row->code.first_traceable + 8);
        ASSERT_EQ(l.object.type, 24);
        ASSERT_EQ(l.unicode.compact_data, 72);
        for (size_t i = 0; i < 26; i++) { /* each is checked */
                memcpy(bytes + places[i], &huge, 8);
                ASSERT_EQ(python_layout_describe(row, version, bytes, &l), -EBADMSG);
                memcpy(bytes + places[i], &plain, 8);
        }
        memcpy(bytes + 16, &free_threaded, 8);
        ASSERT_EQ(python_layout_describe(row, version, bytes, &l), -EOPNOTSUPP);
}

/*
 * --- memory maps ----------------------------------------------------------------------------------------
 */

static void test_maps_line(void) {
        const char *line = "55d0c1c00000-55d0c1e21000 r--p 00001000 fe:01 1316412                    "
                           "/usr/bin/python 3 (deleted)";
        const char *anonymous =
                "7ffd5a5f8000-7ffd5a619000 rw-p 00000000 00:00 0                          [stack]";
        struct mapping m;

        ASSERT_OK(maps_parse_line(line, strlen(line), &m));
        ASSERT_TRUE(m.start == 0x55d0c1c00000 && m.end == 0x55d0c1e21000 && m.offset == 0x1000 &&
                    m.inode == 1316412);
        ASSERT_TRUE(m.deleted);
        ASSERT_STREQ(m.path, "/usr/bin/python 3");
        ASSERT_OK(maps_parse_line(anonymous, strlen(anonymous), &m));
        ASSERT_STREQ(m.path, "[stack]");
        ASSERT_FALSE(m.deleted);
        ASSERT_OK(maps_parse_line("1000-2000 r--p 0 0:0 0", 22, &m));
        ASSERT_STREQ(m.path, "");
}

static void test_maps_malformed(void) {
        const char *bad[] = { "",
                              "-",
                              "1000-",
                              "2000-1000 r--p 0 0:0 0 /a",
                              "1000-1000 r--p 0 0:0 0 /a",
                              "1000-2000 r--p 0 0 0 /a",
                              "11111111111111111-2 r--p 0 0:0 0 /a",
                              "1000-2000 r--",
                              "1000-2000 r--pp 0 0:0 0 /a",
                              "x" };
        struct mapping m;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_EQ(maps_parse_line(bad[i], strlen(bad[i]), &m), -EBADMSG);
}

static int count(const struct mapping *m, void *userdata) {
        ASSERT_TRUE(m->path[0] == '/');
        (*(unsigned *) userdata)++;
        return 0;
}

static unsigned read_maps(const char *text, size_t len, bool *ret_empty) {
        FILE *f = tmpfile();
        unsigned n = 0;

        ASSERT_TRUE(f && fwrite(text, 1, len, f) == len && fflush(f) == 0);
        ASSERT_EQ(lseek(fileno(f), 0, SEEK_SET), 0);
        ASSERT_OK(maps_read(fileno(f), count, &n, ret_empty));
        fclose(f);
        return n;
}

/* Lines over several reads, one of them longer than any buffer, garbage between them. */
static void test_maps_stream(void) {
        static const char line[] = "1000-2000 r--p 00000000 fe:01 7 /usr/lib/libx.so\n";
        size_t size = 400000, n = 0;
        char *text = malloc(size);
        bool empty;

        ASSERT_TRUE(text != NULL);
        for (unsigned i = 0; i < 3000; i++, n += strlen(line))
                memcpy(text + n, line, strlen(line));
        memset(text + n, 'a', 100000);
        n += 100000;
        text[n++] = '\n';
        memcpy(text + n, line, strlen(line));
        n += strlen(line);
        ASSERT_EQ(read_maps(text, n, &empty), 3001);
        ASSERT_FALSE(empty);
        ASSERT_EQ(read_maps(text, 0, &empty), 0);
        ASSERT_TRUE(empty);
        free(text);
}

/*
 * --- texts ----------------------------------------------------------------------------------------------
 */

static void test_text(void) {
        const uint8_t latin[] = { 'g', 'r', 0xF6, 0xDF, 'e', 0 };
        const uint16_t two[] = { 0x6E2C, 0xD800, 0xDC00, 'x' };
        const uint32_t four[] = { 0x1F600, 0x110000, 0x7F, 0x7FF, 0xFFFF };
        char buf[64];

        ASSERT_EQ(text_to_utf8(latin, 1, 6, buf, sizeof(buf)), 10);
        ASSERT_STREQ(buf, "grö"
                          "\xC3\x9F"
                          "e\xEF\xBF\xBD");
        (void) text_to_utf8(two, 2, 4, buf, sizeof(buf));
        ASSERT_STREQ(buf, "測\xEF\xBF\xBD\xEF\xBF\xBDx");
        (void) text_to_utf8(four, 4, 5, buf, sizeof(buf));
        ASSERT_STREQ(buf, "\xF0\x9F\x98\x80\xEF\xBF\xBD\x7F\xDF\xBF\xEF\xBF\xBF");
        ASSERT_EQ(text_to_utf8(latin, 1, 0, buf, sizeof(buf)), 0);
        ASSERT_STREQ(buf, "");
}

/*
 * Every length around the limit: never past it, always whole characters, "…" only when something is missing.
 */
static void test_text_cut(void) {
        uint16_t two[40];
        char buf[32];

        for (size_t i = 0; i < ELEMENTSOF(two); i++)
                two[i] = (uint16_t) (i % 3 == 0 ? 'a' : i % 3 == 1 ? 0xE9 : 0x6E2C);
        for (size_t size = 8; size <= sizeof(buf); size++)
                for (size_t n = 0; n <= ELEMENTSOF(two); n++) {
                        size_t whole = n / 3 * 6 + (n % 3 == 0 ? 0 : n % 3 == 1 ? 1 : 3), len;
                        char clean[32];

                        memset(buf, 'Z', sizeof(buf));
                        len = text_to_utf8(two, 2, n, buf, size);
                        ASSERT_TRUE(len < size && strlen(buf) == len);
                        memcpy(clean, buf, len + 1);
                        text_clean(clean);
                        ASSERT_STREQ(clean, buf);
                        if (whole < size)
                                ASSERT_EQ(len, whole);
                        else
                                ASSERT_STREQ(buf + len - 3, "\xE2\x80\xA6");
                }
}

static void test_text_clean(void) {
        char s[] = "a\xFFz\xC3\xA9\xC3(\xED\xA0\x80\xF4\x90\x80\x80\xE2\x82";

        text_clean(s);
        ASSERT_STREQ(s, "a?z\xC3\xA9?(?????\?\?\?\?");
}

/*
 * --- hostile memory -------------------------------------------------------------------------------------
 */

#define BASE UINT64_C(0x10000)
#define IMAGE 65536u
#define RUNTIME (BASE + 64)

struct image {
        uint8_t bytes[IMAGE];
        uint64_t calls, seed;
        bool moves; /* bytes change between two calls */
};

static uint64_t random_next(uint64_t *state) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

static ssize_t image_readv(void *userdata, const struct iovec *local, const struct iovec *remote, size_t n) {
        struct image *i = userdata;
        ssize_t done = 0;

        i->calls++;
        for (size_t k = 0; i->moves && k < 64; k++)
                i->bytes[random_next(&i->seed) % IMAGE] = (uint8_t) random_next(&i->seed);
        for (size_t k = 0; k < n; k++) {
                uint64_t at = (uint64_t) (uintptr_t) remote[k].iov_base;

                ASSERT_EQ(local[k].iov_len, remote[k].iov_len);
                if (at < BASE || at - BASE > IMAGE - remote[k].iov_len)
                        return done > 0 ? done : -EFAULT;
                memcpy(local[k].iov_base, i->bytes + (at - BASE), remote[k].iov_len);
                done += (ssize_t) remote[k].iov_len;
        }
        return done;
}

static void put_u64(struct image *i, uint64_t address, uint64_t v) {
        memcpy(i->bytes + (address - BASE), &v, 8);
}

static void put_u32(struct image *i, uint64_t address, uint32_t v) {
        memcpy(i->bytes + (address - BASE), &v, 4);
}

static int capture_image_of(struct image *i, const struct python_layout *l, struct capture *c) {
        ASSERT_OK(capture_init(c, (struct memory_source) { image_readv, i, NULL }));
        c->interpreter = (struct interpreter) { .layout = l, .runtime = RUNTIME, .types = { 7, 0, 9 } };
        return capture_stacks(c);
}

static int capture_image(struct image *i, struct capture *c) {
        return capture_image_of(i, &python_layout_311, c);
}

#define INTERPRETER (BASE + 0x1000)
#define THREAD (BASE + 0x3000)
#define CFRAME (BASE + 0x4000)
#define FRAME (BASE + 0x5000)
#define CODE (BASE + 0x6000)
#define NAME (BASE + 0x7000)
#define TABLE (BASE + 0x8000)
#define BYTECODE (BASE + 0x9000)
#define GIL (BASE + 0xA000)
#define PLACES 11u /* pages from BASE to the last of them */

static void make_frame(struct image *i, const struct python_layout *l, unsigned k) {
        uint64_t at = FRAME + k * 0x100;

        put_u64(i, at + l->frame.code, CODE);
        put_u64(i, at + l->frame.previous, k == 0 ? FRAME + 0x100 : 0);
        if (l->frame.instruction_size == 0)
                put_u64(i, at + l->frame.instruction, CODE + l->code.size + k * 2);
        else
                put_u32(i, at + l->frame.instruction, k * 2 / l->frame.instruction_size);
        if (l->frame.state != LAYOUT_NONE)
                i->bytes[at + l->frame.state - BASE] = (uint8_t) l->frame.executing;
        if (l->frame.stack_top_is_pointer && k == 1)
                put_u64(i, at + l->frame.stack_top, FRAME); /* it has put its stack pointer away */
}

static void make_code(struct image *i, const struct python_layout *l) {
        static const uint8_t tables[][4] = { [LINES_LNOTAB] = { 2, 1 },
                                             [LINES_RANGES] = { 2, 0, 2, 1 },
                                             [LINES_LOCATIONS] = { 0x80, 0x80 | 11 << 3 } };
        uint64_t units_at = l->code.bytecode == LAYOUT_NONE ? CODE : BYTECODE;

        put_u64(i, CODE + l->object.type, 7);
        put_u64(i, units_at + l->object.var_size, l->code.bytecode == LAYOUT_NONE ? 2 : 4);
        if (l->code.bytecode != LAYOUT_NONE) {
                put_u64(i, CODE + l->code.bytecode, BYTECODE);
                put_u64(i, BYTECODE + l->object.type, 9);
        }
        put_u64(i, CODE + l->code.filename, NAME);
        put_u64(i, CODE + l->code.qualname, NAME);
        put_u64(i, CODE + l->code.linetable, TABLE);
        put_u32(i, CODE + l->code.first_line, 5);
        put_u64(i, NAME + l->unicode.length, 1);
        put_u32(i, NAME + l->unicode.state,
                1u << l->unicode.kind_shift | 1u << l->unicode.compact_bit | 1u << l->unicode.ascii_bit);
        i->bytes[NAME + l->unicode.ascii_data - BASE] = 'f';
        put_u64(i, TABLE + l->object.type, 9);
        put_u64(i, TABLE + l->object.var_size, l->lines == LINES_RANGES ? 4 : 2);
        memcpy(i->bytes + (TABLE + l->object.bytes_data - BASE), tables[l->lines], 4);
}

/* One thread, which holds the lock, with two frames of one function: "f" in file "f", lines 5 (inner) and 6.
 */
static void make_image_of(struct image *i, const struct python_layout *l) {
        memset(i, 0, sizeof(*i));
        put_u64(i, RUNTIME + l->runtime.interpreters, INTERPRETER);
        if (l->runtime.gil_holder != LAYOUT_NONE)
                put_u64(i, RUNTIME + l->runtime.gil_holder, THREAD);
        else {
                put_u64(i, INTERPRETER + l->interpreter.gil, GIL);
                put_u64(i, GIL + l->gil.last_holder, THREAD);
                put_u32(i, GIL + l->gil.locked, 1);
        }
        put_u64(i, INTERPRETER + l->interpreter.threads, THREAD);
        put_u64(i, THREAD + l->thread.interpreter, INTERPRETER);
        if (l->thread.cframe != LAYOUT_NONE)
                put_u64(i, THREAD + l->thread.cframe, CFRAME);
        put_u64(i, (l->thread.cframe != LAYOUT_NONE ? CFRAME : THREAD) + l->thread.frame, FRAME);
        make_frame(i, l, 0);
        make_frame(i, l, 1);
        make_code(i, l);
}

static void make_image(struct image *i) {
        make_image_of(i, &python_layout_311);
}

/* 3.8 to 3.15. */
static const struct python_layout *nth_layout(unsigned n) {
        return python_layout_find(0x030000F0 | (uint64_t) (8 + n % 8) << 16);
}

static void test_image_of_every_version(void) {
        for (unsigned n = 0; n < 8; n++) {
                _cleanup_capture_ struct capture c = CAPTURE_NULL;
                const struct python_layout *l = nth_layout(n);
                const struct chain *chain;
                struct image i;

                make_image_of(&i, l);
                if (l->frame.stack_top != LAYOUT_NONE && !l->frame.stack_top_is_pointer)
                        put_u32(&i, FRAME + l->frame.stack_top, 0xFFFFFFFF); /* the innermost one runs */
                ASSERT_OK(capture_image_of(&i, l, &c));
                ASSERT_EQ(c.n_threads, 1);
                ASSERT_TRUE(c.threads[0].gil && !c.threads[0].changed && !c.threads[0].error);
                chain = &c.threads[0].chain;
                ASSERT_EQ(chain->n, 2);
                ASSERT_STREQ(chain->frames[0].code->function, "f");
                ASSERT_EQ(code_line(chain->frames[0].code, chain->frames[0].instruction), 5);
                ASSERT_EQ(code_line(chain->frames[1].code, chain->frames[1].instruction), 6);
        }
}

static void test_image(void) {
        _cleanup_capture_ struct capture c = CAPTURE_NULL;
        struct image i;

        make_image(&i);
        put_u32(&i, FRAME + 64, 0xFFFFFFFF); /* the innermost one runs */
        ASSERT_OK(capture_image(&i, &c));
        ASSERT_EQ(c.n_threads, 1);
        ASSERT_TRUE(c.threads[0].gil && !c.threads[0].changed && !c.threads[0].error);
        ASSERT_EQ(c.threads[0].chain.n, 2);
        ASSERT_STREQ(c.threads[0].chain.frames[0].code->function, "f");
        ASSERT_EQ(code_line(c.threads[0].chain.frames[0].code, c.threads[0].chain.frames[0].instruction), 5);
        ASSERT_EQ(code_line(c.threads[0].chain.frames[1].code, c.threads[0].chain.frames[1].instruction), 6);
}

/* Who holds the lock, and whose innermost frame does not run, is between two places: marked. */
static void test_image_between(void) {
        _cleanup_capture_ struct capture c = CAPTURE_NULL;
        struct image i;

        make_image(&i);
        ASSERT_OK(capture_image(&i, &c));
        ASSERT_TRUE(c.threads[0].gil && c.threads[0].changed && !c.threads[0].error);
}

/* What one broken place does to the image of test_image(). */
static int thread_error(uint64_t address, uint64_t value) {
        _cleanup_capture_ struct capture c = CAPTURE_NULL;
        struct image i;
        int r;

        make_image(&i);
        put_u64(&i, address, value);
        r = capture_image(&i, &c);
        return r < 0 ? r : c.n_threads == 1 ? c.threads[0].error : 1000;
}

static void test_image_broken(void) {
        ASSERT_EQ(thread_error(FRAME + 0x100 + 48, FRAME), -ELOOP); /* frames in a loop */
        ASSERT_EQ(thread_error(FRAME + 0x100 + 48, FRAME + 0x100), -ELOOP);
        ASSERT_EQ(thread_error(THREAD + 8, THREAD), -ELOOP);          /* threads in a loop */
        ASSERT_EQ(thread_error(INTERPRETER, INTERPRETER), -ELOOP);    /* interpreters in a loop */
        ASSERT_EQ(thread_error(FRAME + 48, 0xdeadbeef0000), -EFAULT); /* a wild pointer */
        ASSERT_EQ(thread_error(FRAME + 48, UINT64_MAX - 8), -EFAULT); /* one that wraps */
        ASSERT_EQ(thread_error(THREAD + 56, 0), -EFAULT);
        ASSERT_EQ(thread_error(THREAD + 16, THREAD), -EBADMSG); /* a thread of another interpreter */
        ASSERT_EQ(thread_error(CODE + 8, 8), -EBADMSG);         /* no code object */
        ASSERT_EQ(thread_error(CODE + 16, 0), -EBADMSG);        /* an instruction past its end */
        ASSERT_EQ(thread_error(FRAME + 64, 0x00000000), 0);
        ASSERT_EQ(thread_error(FRAME + 0x100 + 64, 0xFFFFFFFF),
                  -EBADMSG);                                       /* a caller that is executing itself */
        ASSERT_EQ(thread_error(NAME + 16, UINT64_MAX), -EBADMSG);  /* a string of impossible length */
        ASSERT_EQ(thread_error(NAME + 16, UINT64_C(1) << 62), 0);  /* a huge one is cut */
        ASSERT_EQ(thread_error(NAME + 32, 5 << 2), -EBADMSG);      /* characters of five bytes */
        ASSERT_EQ(thread_error(TABLE + 16, UINT64_C(1) << 40), 0); /* no lines, but a stack */
        ASSERT_EQ(thread_error(RUNTIME + 40, 0), 1000);            /* no interpreter: no thread */
}

/* Pointers into the image, small numbers and noise: whatever it makes of it, it ends, within its bounds. */
static void test_image_random(void) {
        uint64_t seed = test_seed() | 1, calls = 0, frames = 0;
        struct image *i = malloc(sizeof(*i));

        ASSERT_TRUE(i != NULL);
        for (unsigned round = 0; round < 10000; round++) {
                _cleanup_capture_ struct capture c = CAPTURE_NULL;
                unsigned changes = (unsigned) (random_next(&seed) % 200);

                make_image_of(i, nth_layout(round));
                i->seed = random_next(&seed);
                i->moves = round / 8 % 2;
                for (unsigned k = 0; k < changes; k++) {
                        uint64_t at = (random_next(&seed) % PLACES) * 0x1000 +
                                      random_next(&seed) % 0x280 / 8 * 8,
                                 kind = random_next(&seed);

                        put_u64(i, BASE + at,
                                kind % 3 == 0   ? BASE + random_next(&seed) % (IMAGE + 4096) / 8 * 8
                                : kind % 3 == 1 ? random_next(&seed) % 64
                                                : random_next(&seed));
                }
                (void) capture_image_of(i, nth_layout(round), &c);
                ASSERT_TRUE(c.n_threads <= WALK_THREADS_MAX && c.frames <= WALK_FRAMES_TOTAL_MAX);
                calls += i->calls;
                frames += c.frames;
        }
        ASSERT_TRUE(frames > 1000); /* the rounds must reach the frames */
        printf("10000 images: %" PRIu64 " reads, %" PRIu64 " frames\n", calls, frames);
        free(i);
}

static void test_layouts(void) {
        ASSERT_TRUE(python_layout_find(0x030B02F0) == python_layout_find(0x030B07F0));
        ASSERT_TRUE(python_layout_find(0x030B02F0)->version == 0x030B);
        ASSERT_TRUE(python_layout_find(0x030B00A7) == NULL);
        ASSERT_TRUE(python_layout_find(0x1030B02F0) == NULL);
        ASSERT_TRUE(python_layout_find(0) == NULL);
}

TEST_MAIN(test_line_table, test_line_table_large_delta, test_line_table_malformed, test_line_lnotab,
          test_line_ranges, test_version, test_description, test_maps_line, test_maps_malformed,
          test_maps_stream, test_text, test_text_cut, test_text_clean, test_image, test_image_between,
          test_image_of_every_version, test_image_broken, test_image_random, test_layouts)
