/* SPDX-License-Identifier: Apache-2.0 */
/* One exchange at a time: what could not be started holds up nothing. */
#include <sys/resource.h>

#include "exchange.h"
#include "test.h"

static void on_done(const struct exchange_answer *a, void *userdata) {
        ASSERT_TRUE(a->failed);
        (*(unsigned *) userdata)++;
}

/* No process for looking the name up can be made (here: for want of descriptors); the next try is not turned away for it. */
static void test_what_was_not_started_blocks_nothing(void) {
        const struct exchange_request q = { .path = "/x", .body = "{}", .len = 2, .timeout = 30 * USEC_PER_SEC };
        struct rlimit files, none;
        struct exchange *x = NULL;
        sd_event *e = NULL;
        unsigned done = 0;
        char why[256];

        ASSERT_TRUE(sd_event_new(&e) >= 0);
        ASSERT_OK(exchange_new(e, &(struct exchange_options){ .url = "http://nobody.invalid:1", .answer_max = 100, .user_agent = "test", .name = "test",
                                                              .done = on_done, .userdata = &done }, &x, why));
        ASSERT_TRUE(getrlimit(RLIMIT_NOFILE, &files) == 0);
        none = (struct rlimit) { .rlim_cur = 0, .rlim_max = files.rlim_max };
        ASSERT_TRUE(setrlimit(RLIMIT_NOFILE, &none) == 0);
        for (unsigned i = 0; i < 3; i++) {
                ASSERT_EQ(exchange_start(x, &q), -EMFILE);
                ASSERT_FALSE(exchange_at_work(x));
        }
        ASSERT_TRUE(setrlimit(RLIMIT_NOFILE, &files) == 0);
        ASSERT_OK(exchange_start(x, &q));
        ASSERT_TRUE(exchange_at_work(x));
        ASSERT_EQ(exchange_start(x, &q), -EBUSY);
        while (done == 0)
                ASSERT_TRUE(sd_event_run(e, 60 * USEC_PER_SEC) > 0);
        ASSERT_FALSE(exchange_at_work(x));
        x = exchange_free(x);
        (void) sd_event_unref(e);
}

TEST_MAIN(test_what_was_not_started_blocks_nothing)
