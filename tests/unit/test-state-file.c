/* SPDX-License-Identifier: Apache-2.0 */
/* Files that outlive a program: what was written is read, and nothing else ever is. */
#include "json_fields.h"
#include "scratch.h"
#include "state_file.h"
#include "test.h"

#include <fcntl.h>

static const struct state_format format = {
        .what = "test", .version = 2, .max = 100, .options = { .mode = 0640 }
};

static int open_dir(const struct scratch *s) {
        int fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        ASSERT_TRUE(fd >= 0);
        return fd;
}

static void what_is_written_is_read(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_close_ int dir = open_dir(&s);
        char path[512], why[STATE_FILE_WHY_MAX], long_text[101];
        struct stat st;

        scratch_write(&s, "below/x", "");
        scratch_path(&s, "a", path);
        for (int absolute = 0; absolute < 2; absolute++) {
                static const char content[] = "line\nwith \0 and all";
                _cleanup_free_ char *text = NULL;
                const char *name = absolute ? path : "below/a";
                size_t len;

                ASSERT_OK(state_file_write(dir, name, &format, content, sizeof(content)));
                ASSERT_OK(state_file_read(dir, name, &format, &text, &len, why));
                ASSERT_EQ(len, sizeof(content));
                ASSERT_EQ(memcmp(text, content, len), 0);
                ASSERT_OK(fstatat(dir, name, &st, 0));
                ASSERT_EQ(st.st_mode & 0777, 0640);
        }
        memset(long_text, 'x', sizeof(long_text));
        ASSERT_EQ(state_file_write(dir, "a", &format, long_text, sizeof(long_text)), -E2BIG);
        ASSERT_OK(state_file_write(dir, "a", &format, long_text, sizeof(long_text) - 1));
        ASSERT_EQ(state_file_write(dir, "none/a", &format, "", 0), -ENOENT);
}

/* Torn at every byte, and each bit of it flipped: never read as anything. */
static void damage_is_found(void) {
        static const char content[] = "{\"a\": [1, 2, 3]}";
        char whole[STATE_FILE_HEAD_MAX + sizeof(content)], why[STATE_FILE_WHY_MAX];
        size_t head = state_file_head(&format, content, strlen(content), whole),
                len = head + strlen(content), at;

        memcpy(whole + head, content, sizeof(content));
        ASSERT_OK(state_file_parse(&format, whole, len, &at, why));
        ASSERT_EQ(at, head);
        for (size_t n = 0; n < len; n++)
                ASSERT_EQ(state_file_parse(&format, whole, n, &at, why), -EBADMSG);
        for (size_t bit = 0; bit < len * 8; bit++) {
                int r;

                whole[bit / 8] ^= (char) (1 << bit % 8);
                r = state_file_parse(&format, whole, len, &at, why);
                ASSERT_TRUE(r == -EBADMSG || (r == -EPROTONOSUPPORT && bit / 8 < head));
                ASSERT_TRUE(why[0]);
                whole[bit / 8] ^= (char) (1 << bit % 8);
        }
}

static void what_cannot_be_used_is_set_aside(void) {
        static const struct state_format next = {
                .what = "test", .version = 3, .max = 100, .options = { .mode = 0600 }
        };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_close_ int dir = open_dir(&s);
        _cleanup_free_ char *text = NULL;
        char why[STATE_FILE_WHY_MAX];
        json_t *o = NULL;
        size_t len;

        ASSERT_EQ(state_file_load(dir, "a", &format, &text, &len), -ENOENT);
        ASSERT_OK(state_file_write(dir, "a", &next, "x", 1));
        ASSERT_EQ(state_file_read(dir, "a", &format, &text, &len, why), -EPROTONOSUPPORT);
        ASSERT_TRUE(strstr(why, "version 3"));
        ASSERT_EQ(state_file_load(dir, "a", &format, &text, &len), -ENOENT);
        ASSERT_OK(faccessat(dir, "a.other-version", F_OK, 0));
        ASSERT_EQ(faccessat(dir, "a", F_OK, 0), -1);
        scratch_write(&s, "a", "{\"version\": 1}");
        ASSERT_EQ(state_file_load(dir, "a", &format, &text, &len), -ENOENT);
        ASSERT_OK(faccessat(dir, "a.damaged", F_OK, 0));
        ASSERT_OK(state_file_write(dir, "b", &format, "{", 1));
        ASSERT_EQ(state_file_load_json(dir, "b", &format, &o), -ENOENT);
        ASSERT_OK(faccessat(dir, "b.damaged", F_OK, 0));
        ASSERT_OK(state_file_write_json(dir, "b", &format, json_pack("[i]", 1)));
        ASSERT_OK(state_file_load_json(dir, "b", &format, &o));
        ASSERT_EQ(json_array_size(o), 1);
        json_decref(o);
        ASSERT_EQ(state_file_write_json(dir, "b", &format, NULL), -ENOMEM);
}

/* --- Members of a struct ------------------------------------------------------------------------------- */

struct all {
        char text[8], word[8];
        uint32_t small;
        uint64_t large;
        int signal;
        bool flag;
};

#define FIELD(...) JSON_FIELD(struct all, __VA_ARGS__)
static const struct json_field fields[] = {
        FIELD(TEXT, "text", text),
        FIELD(WORD, "word", word),
        FIELD(NUMBER, "small", small, .min = 1),
        FIELD(NUMBER, "large", large),
        FIELD(NUMBER, "signal", signal, .max = 64),
        FIELD(FLAG, "flag", flag),
};

static int take_with(const char *key, const char *value) {
        const struct all a = { .text = "a b\n", .word = "a.b-c+_", .small = 1, .large = INT64_MAX,
                               .signal = 64, .flag = true };
        json_t *o = json_fields_pack(fields, ELEMENTSOF(fields), &a),
               *v = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
        struct all back = { .text = "" };
        int r;

        ASSERT_TRUE(o);
        if (key && v)
                ASSERT_OK(json_object_set_new(o, key, v));
        else if (key)
                ASSERT_OK(json_object_del(o, key));
        r = json_fields_take(o, fields, ELEMENTSOF(fields), &back);
        json_decref(o);
        if (!key) {
                ASSERT_TRUE(streq(back.text, a.text) && streq(back.word, a.word));
                ASSERT_TRUE(back.small == 1 && back.large == a.large && back.signal == 64 && back.flag);
        }
        return r;
}

static void fields_come_back(void) {
        static const struct {
                const char *key, *value;
        } bad[] = {
                { "text", "\"12345678\"" }, { "text", "1" },         { "word", "\"a b\"" },
                { "word", "null" },
                { "small", "0" },           { "small", "-1" },       { "small", "1.5" },
                { "small", "4294967296" },
                { "large", "-1" },          { "signal", "65" },     { "flag", "1" },
        };

        ASSERT_OK(take_with(NULL, NULL));
        ASSERT_OK(take_with("more", "1"));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                ASSERT_EQ(take_with(bad[i].key, bad[i].value), -EBADMSG);
        for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                ASSERT_EQ(take_with(fields[i].key, NULL), -EBADMSG);
}

TEST_MAIN(what_is_written_is_read, damage_is_found, what_cannot_be_used_is_set_aside, fields_come_back)
