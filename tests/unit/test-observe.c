/* SPDX-License-Identifier: Apache-2.0 */
#include "observe.h"
#include "test.h"

#define NOW_BOOT "12345678-1234-1234-1234-123456789abc"
#define OTHER_BOOT "00000000-1234-1234-1234-123456789abc"
#define S(n) ((usec_t) (n) *USEC_PER_SEC)
#define REAL S(1800000000)

static struct observe order(const char *boot_id, usec_t until) {
        struct observe o = { .ordered = true, .heard_boot = S(100), .heard_real = REAL, .until = until };

        (void) snprintf(o.boot_id, sizeof(o.boot_id), "%s", boot_id);
        return o;
}

static void test_in_its_own_boot(void) {
        struct observe none = OBSERVE_NULL, endless = order(NOW_BOOT, 0),
                minute = order(NOW_BOOT, REAL + S(60)),
                       over = order(NOW_BOOT, REAL);

        ASSERT_FALSE(observe_counts(&none, S(5)));
        ASSERT_FALSE(observe_adopt(&none, NOW_BOOT, S(5), REAL));
        ASSERT_FALSE(observe_adopt(&endless, NOW_BOOT, S(500), REAL));
        ASSERT_TRUE(observe_counts(&endless, S(100)));
        ASSERT_TRUE(observe_counts(&endless, S(100) + 365 * S(86400))); /* until it is told */
        ASSERT_TRUE(observe_counts(&minute, S(159)));
        ASSERT_FALSE(observe_counts(&minute, S(160)));
        ASSERT_FALSE(observe_counts(&over, S(99)));
}

/* How long an order of another boot counts, adopted 3 s after the start of this one. */
static usec_t adopted(const char *boot_id, usec_t until, usec_t real) {
        struct observe o = order(boot_id, until);
        usec_t span = 0;

        ASSERT_TRUE(observe_adopt(&o, NOW_BOOT, S(3), real));
        ASSERT_FALSE(observe_adopt(&o, NOW_BOOT, S(4), real)); /* once: a restart begins nothing anew */
        while (observe_counts(&o, S(3) + span) && span < 10 * OBSERVE_UNCONFIRMED)
                span += S(1);
        return span;
}

static void test_after_a_boot(void) {
        ASSERT_EQ(adopted(OTHER_BOOT, 0, REAL + S(86400)), OBSERVE_UNCONFIRMED);
        ASSERT_EQ(adopted(OTHER_BOOT, REAL + S(60), REAL + S(50)), S(10));
        ASSERT_EQ(adopted(OTHER_BOOT, REAL + S(60), REAL + S(60)), 0);
        ASSERT_EQ(adopted(OTHER_BOOT, REAL + S(86400), REAL + S(60)), OBSERVE_UNCONFIRMED);
        ASSERT_EQ(adopted(OTHER_BOOT, REAL + S(60), 0), OBSERVE_UNCONFIRMED); /* a clock not set yet */
        /* a damaged file: of no boot */
        ASSERT_EQ(adopted("", 0, REAL), OBSERVE_UNCONFIRMED);
}

static void test_the_text(void) {
        struct observe o = { .ordered = true, .boot_id = NOW_BOOT, .heard_boot = 7, .heard_real = REAL,
                             .until = UINT64_MAX / 2 }, back;
        char text[OBSERVE_TEXT_MAX], cut[OBSERVE_TEXT_MAX];
        size_t len = observe_format(&o, text);

        ASSERT_OK(observe_parse(text, len, &back));
        ASSERT_TRUE(back.ordered);
        ASSERT_STREQ(back.boot_id, NOW_BOOT);
        ASSERT_EQ(back.heard_boot, 7);
        ASSERT_EQ(back.heard_real, REAL);
        ASSERT_EQ(back.until, UINT64_MAX / 2);
        for (size_t k = 0; k < len; k++) { /* cut anywhere, or one byte of it another */
                ASSERT_EQ(observe_parse(text, k, &back), -EBADMSG);
                memcpy(cut, text, len);
                cut[k] = '\0';
                ASSERT_EQ(observe_parse(cut, len, &back), -EBADMSG);
                cut[k] = 'x';
                ASSERT_EQ(observe_parse(cut, len, &back), -EBADMSG);
        }
        text[len] = 'x';
        ASSERT_EQ(observe_parse(text, len + 1, &back), -EBADMSG);
        memset(cut, 'x', sizeof(cut));
        ASSERT_EQ(observe_parse(cut, sizeof(cut), &back), -EBADMSG);
}

static void test_refused_numbers(void) {
        static const char *const bad[] = { "heard -1 1\nuntil 0\n",
                                           "heard 1 1\nuntil 18446744073709551615\n",
                                           "heard 1  1\nuntil 0\n",
                                           "heard 1 1\nuntil 1e3\n",
                                           "heard 99999999999999999999 1\nuntil 0\n", "heard 1\nuntil 0\n",
                                           "heard 1 1\nuntil \n" };
        struct observe o;
        char text[OBSERVE_TEXT_MAX];

        for (size_t k = 0; k < ELEMENTSOF(bad); k++) {
                (void) snprintf(text, sizeof(text), "boot " NOW_BOOT "\n%s", bad[k]);
                ASSERT_EQ(observe_parse(text, strlen(text), &o), -EBADMSG);
        }
}

TEST_MAIN(test_in_its_own_boot, test_after_a_boot, test_the_text, test_refused_numbers)
