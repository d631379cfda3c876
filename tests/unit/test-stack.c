/* SPDX-License-Identifier: Apache-2.0 */
/* The pure parts of tpu-stack: line tables, versions, layouts, maps, texts. */
#include <fcntl.h>

#include "interpreter.h"
#include "mapped_file.h"
#include "text.h"
#include "utf8.h"

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
        for (size_t i = 0; i < 26; i++)
                memcpy(bytes + places[i], &(uint64_t) { 0 }, 8);
        SAY(frame_size, 88);
        SAY(bytes_data, 24);
        SAY(unicode_ascii_data, 24);
        for (uint64_t size = 0; size < row->code.size - row->code.first_traceable; size++) { /* no wrap */
                SAY(code_size, size);
                ASSERT_EQ(python_layout_describe(row, version, bytes, &l), -EBADMSG);
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
                        utf8_mend(clean);
                        ASSERT_STREQ(clean, buf);
                        if (whole < size)
                                ASSERT_EQ(len, whole);
                        else
                                ASSERT_STREQ(buf + len - 3, "\xE2\x80\xA6");
                }
}

static void test_utf8_mend(void) {
        char s[] = "a\xFFz\xC3\xA9\xC3(\xED\xA0\x80\xF4\x90\x80\x80\xE2\x82";

        utf8_mend(s);
        ASSERT_STREQ(s, "a?z\xC3\xA9?(?????\?\?\?\?");
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
          test_maps_stream, test_text, test_text_cut, test_utf8_mend, test_layouts)
