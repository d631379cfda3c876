/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 401 for a day: one try a minute and class, nothing lost, all of it delivered when the rights are there.
 * The uplink's clock runs SPEED times as fast (--wrap); libcurl's waits, which are shorter than LEAST, do
 * not.
 */
#include "clock.h"
#include "http-stub.h"
#include "spool-support.h"
#include "uplink.h"

#define SPEED 12000
#define LEAST (20 * USEC_PER_SEC)
#define DAY_TRIES (24 * 60)
#define RECORDS 50

static usec_t began;

int __real_sd_event_now(sd_event *e, clockid_t clock, uint64_t *ret);
int __wrap_sd_event_now(sd_event *e, clockid_t clock, uint64_t *ret);
int __wrap_sd_event_now(sd_event *e, clockid_t clock, uint64_t *ret) {
        int r = __real_sd_event_now(e, clock, ret);

        if (r >= 0 && clock == CLOCK_BOOTTIME)
                *ret = began + (*ret - began) * SPEED;
        return r;
}

int __real_sd_event_source_set_time_relative(sd_event_source *s, uint64_t span);
int __wrap_sd_event_source_set_time_relative(sd_event_source *s, uint64_t span);
int __wrap_sd_event_source_set_time_relative(sd_event_source *s, uint64_t span) {
        return __real_sd_event_source_set_time_relative(s, span >= LEAST ? span / SPEED : span);
}

int __real_sd_event_add_time_relative(sd_event *e, sd_event_source **ret, clockid_t clock, uint64_t span,
                                      uint64_t accuracy, sd_event_time_handler_t handler, void *userdata);
int __wrap_sd_event_add_time_relative(sd_event *e, sd_event_source **ret, clockid_t clock, uint64_t span,
                                      uint64_t accuracy, sd_event_time_handler_t handler, void *userdata);
int __wrap_sd_event_add_time_relative(sd_event *e, sd_event_source **ret, clockid_t clock, uint64_t span,
                                      uint64_t accuracy, sd_event_time_handler_t handler, void *userdata) {
        return __real_sd_event_add_time_relative(e, ret, clock, span, MIN(accuracy, (uint64_t) 1), handler,
                                                 userdata);
}

static void submit_all(struct uplink *u) {
        uint8_t buf[64];
        uint64_t seq = 0;

        for (enum uplink_class c = 0; c < _UPLINK_CLASS_MAX; c++)
                for (uint64_t i = 1; i <= RECORDS; i++)
                        ASSERT_OK(uplink_submit(u, c, buf, record_make((uint64_t) c, i, buf, sizeof(buf)),
                                                &seq));
}

static uint64_t sent_of_all(const struct uplink_stats *st) {
        uint64_t n = 0;

        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                n += st->classes[c].sent;
        return n;
}

static void test_denied_for_a_day(void) {
        static enum stub_step script[_UPLINK_CLASS_MAX * DAY_TRIES];
        struct uplink_options o = { .max_bytes = 4 << 20,
                                    .user_agent = "test/1",
                                    .timeout = 15 * USEC_PER_SEC };
        char dir[64], endpoint[64];
        struct uplink_stats st = { 0 };
        struct uplink *u = NULL;
        unsigned parked = 0, looks = 0;
        uint64_t retried = 0;
        sd_event *e = NULL;
        struct stub *stub;
        usec_t end = 0;

        for (size_t i = 0; i < ELEMENTSOF(script); i++)
                script[i] = STUB_DENIED;
        scratch_make(dir);
        stub = stub_new(script, ELEMENTSOF(script));
        stub_start(stub);
        (void) snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", stub->port);
        o.spool_dir = dir;
        o.endpoint = endpoint;
        ASSERT_OK(sd_event_new(&e));
        began = clock_boot(&clock_system);
        ASSERT_OK(uplink_new(e, &o, &u));
        submit_all(u);
        while (sent_of_all(&st) < _UPLINK_CLASS_MAX * RECORDS) {
                ASSERT_TRUE(sd_event_run(e, 10 * USEC_PER_MSEC) >= 0);
                ASSERT_TRUE(clock_boot(&clock_system) - began < 500 * USEC_PER_SEC);
                uplink_get_stats(u, &st);
                parked += st.parked;
                looks++;
        }
        ASSERT_OK(sd_event_now(e, CLOCK_BOOTTIME, &end));
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                retried += st.classes[c].retried;
        printf("401 for %.1f h: %" PRIu64 " tries, all of %d * %d records there\n",
               (double) (end - began) / 3600e6,
               retried, _UPLINK_CLASS_MAX, RECORDS);
        /* one a minute and not more: the classes share the refusals, so that each has about as many */
        ASSERT_EQ(retried, _UPLINK_CLASS_MAX * DAY_TRIES);
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                ASSERT_TRUE(st.classes[c].retried * 60 * USEC_PER_SEC <= end - began);
                ASSERT_EQ(st.classes[c].refused + st.classes[c].not_kept, 0);
                ASSERT_EQ(st.classes[c].lost[SPOOL_IN_PART], 0);
                ASSERT_EQ(st.classes[c].spool.dropped_bytes_limit + st.classes[c].spool.records, 0);
                ASSERT_EQ(st.classes[c].sent, RECORDS);
        }
        ASSERT_TRUE(parked > looks / 2 && !st.parked);
        uplink_free(u);
        stub_stop(stub);
        sd_event_unref(e);
        scratch_clear(dir);
}

TEST_MAIN(test_denied_for_a_day)
