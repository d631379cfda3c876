/* SPDX-License-Identifier: Apache-2.0 */
/* What checks say: fields in their places, what the list leaves to the judge, and fields that are
 * hostile. */
#include "check_words.h"
#include "test.h"

/* Every row can be said, whatever its texts ask for. */
static void test_each_row(void) {
        for (enum check_words w = 0; w < _WORDS_MAX; w++) {
                struct finding f;

                finding_init(&f, "any", "eth0");
                check_say(&f, w, "a", "b", "c", "d", "e", "f", "g", "h", "i");
                ASSERT_FALSE(strchr(f.reason, '{') || strchr(f.remedy, '{'));
        }
}

static void test_fields(void) {
        struct finding f;

        check_tell(&f, WORDS_PORT_AWAY, "", "h0 (10.0.0.1)", "h1", "Connection refused", "10.0.0.1", "");
        ASSERT_STREQ(f.check, "run");
        ASSERT_EQ(f.verdict, VERDICT_FAIL);
        ASSERT_STREQ(f.reason,
                     "h0 (10.0.0.1) cannot be reached from h1: Connection refused");
        ASSERT_STREQ(f.remedy, "tpuctl check path; ip route get 10.0.0.1");
        check_tell(&f, WORDS_NIC_DOWN, "eth1");
        ASSERT_STREQ(f.remedy, "sudo ip link set dev eth1 up");
        ASSERT_STREQ(f.subject, "eth1");
}

/* A part in brackets is there with its field; a text's own brackets are text. */
static void test_brackets(void) {
        struct finding f;

        check_tell(&f, WORDS_API_FILES, "", "no such file", "");
        ASSERT_STREQ(f.reason, "no such file");
        check_tell(&f, WORDS_API_FILES, "", "no such file", "the previous files stay in force");
        ASSERT_STREQ(f.reason, "no such file; the previous files stay in force");
        ASSERT_STREQ(f.source, "[Api] of hostd.conf");
        check_tell(&f, WORDS_THP, NULL);
        ASSERT_STREQ(f.wanted, "[always] madvise never");
}

static void test_what_is_the_judges(void) {
        struct finding f;

        finding_init(&f, "nic.mtu", "eth0");
        f.verdict = VERDICT_FAIL;
        finding_set(f.reason, "its own");
        check_say(&f, WORDS_REPAIR);
        ASSERT_EQ(f.verdict, VERDICT_FAIL);
        ASSERT_STREQ(f.reason, "its own");
        ASSERT_TRUE(check_says(&f, WORDS_REPAIR));
        check_say(&f, WORDS_REPAIR_THERE, "/proc/7/ns/net");
        ASSERT_FALSE(check_says(&f, WORDS_REPAIR));
        ASSERT_STREQ(f.remedy, "tpu-netcfg --netns /proc/7/ns/net");
}

static void test_hostile_fields(void) {
        struct finding f;
        char large[2000];

        check_tell(&f, WORDS_METADATA_AWAY, "", "{3}\x1b[2J[x]", "a", "b");
        ASSERT_STREQ(f.reason, "{3}?[2J[x]; what it said before counts on (a)");
        memset(large, 'x', sizeof(large) - 1);
        large[sizeof(large) - 1] = '\0';
        check_tell(&f, WORDS_METADATA_AWAY, "", large, large, large);
        ASSERT_EQ(strlen(f.reason), sizeof(f.reason) - 1);
        ASSERT_TRUE(strstr(f.reason, "…") != NULL);
}

TEST_MAIN(test_each_row, test_fields, test_brackets, test_what_is_the_judges, test_hostile_fields)
