/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of lines within a minute. */
#include "log.h"
#include "test.h"

static unsigned lines;
static char last[LOG_LINE_MAX];

static bool count_line(int priority, int error, const char *line) {
        (void) priority, (void) error;
        lines++;
        (void) snprintf(last, sizeof(last), "%s", line);
        return true;
}

/* At most so many within any minute, and none is lost without being counted. */
static void test_limit(void) {
        struct log_limit limit = { 0 };
        usec_t at[200] = { 0 };
        unsigned written = 0, said = 0, more;

        log_set_sink(count_line);
        log_set_limit(&limit);
        for (usec_t now = USEC_PER_SEC; now < 400 * USEC_PER_SEC; now += USEC_PER_SEC) {
                bool flood = now < 300 * USEC_PER_SEC;

                log_limit_turn(&limit, now);
                for (int i = 0; flood && i < 3; i++, said++)
                        log_notice("a change");
                log_debug("what only who asks for it sees");
                for (; written < lines; written++)
                        at[written] = now;
        }
        for (unsigned i = LOG_LIMIT; i < written; i++)
                ASSERT_TRUE(at[i] - at[i - LOG_LIMIT] >= LOG_LIMIT_TIME);
        ASSERT_TRUE(written >= 4 * LOG_LIMIT);
        ASSERT_EQ(limit.unwritten, 0);
        ASSERT_EQ(sscanf(last, "%u more lines were not written", &more), 1);
        ASSERT_TRUE(more > 50 && more < said);
        log_set_limit(NULL);
        for (int i = 0; i < 100; i++)
                log_notice("without one");
        ASSERT_EQ(lines, written + 100);
        log_set_sink(NULL);
}

/* However many changes are logged, a contest and a failure still are. */
static void test_room_for_warnings(void) {
        struct log_limit limit = { 0 };
        unsigned before = lines;

        log_set_sink(count_line);
        log_set_limit(&limit);
        log_limit_turn(&limit, USEC_PER_SEC);
        for (int i = 0; i < 100; i++)
                log_notice("a change");
        ASSERT_EQ(lines, before + LOG_LIMIT - LOG_LIMIT_GRAVE);
        for (int i = 0; i < 100; i++)
                log_warning("contested");
        ASSERT_EQ(lines, before + LOG_LIMIT);
        ASSERT_STREQ(last, "contested");
        log_set_limit(NULL);
        log_set_sink(NULL);
}

TEST_MAIN(test_limit, test_room_for_warnings)
