/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In steady state a push takes a few large pieces of memory, however many points it has, and has given them
 * back when the next one begins: after a warm-up, 1,000 rounds of points, events, encoding, submitting and
 * syncing (linked with --wrap; calls inside of shared libraries are theirs).
 */
#include "otlp.h"
#include "spool-support.h"
#include "uplink.h"

/* of a round: one arena chunk, output and pending records of points; the same of an event */
#define PIECES_MAX 8

static size_t calls, live;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) {
        calls++;
        live++;
        return __real_malloc(size);
}
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) {
        calls++;
        live++;
        return __real_calloc(n, size);
}
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size) {
        calls++;
        live += !p;
        return __real_realloc(p, size);
}
void *__real_reallocarray(void *p, size_t n, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size) {
        calls++;
        live += !p;
        return __real_reallocarray(p, n, size);
}
void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p) {
        live -= p != NULL;
        __real_free(p);
}

static void submit(struct uplink *u, enum uplink_class c, const void *data, size_t len) {
        uint64_t seq = 0;

        ASSERT_OK(uplink_submit(u, c, data, len, &seq));
}

static void one_round(sd_event *e, struct uplink *u, struct otlp *o, unsigned n) {
        const struct otlp_attribute a[] = { { .key = "network.interface.name", .text = "eth0" },
                                            { .key = "queue", .number = n } };
        const struct otlp_event event = {
                .name = "tpu.test", .severity = SEVERITY_INFO, .time_real = n, .body = a, .n_body = 2
        };
        const void *data;
        char name[32];
        size_t len;

        for (unsigned i = 0; i < 150; i++) {
                (void) snprintf(name, sizeof(name), "tpu.metric.%u", i / 3);
                ASSERT_OK(otlp_add_point(
                        o,
                        &(struct otlp_point){
                                .name = name, .is_int = true, .i = n, .attributes = a, .n_attributes = 2 }));
        }
        ASSERT_OK(otlp_encode_metrics(o, &data, &len));
        submit(u, UPLINK_METRICS, data, len);
        ASSERT_OK(otlp_encode_event(o, &event, &data, &len));
        submit(u, UPLINK_EVENTS, data, len);
        while (sd_event_run(e, 0) > 0)
                ;
}

static void test_steady_state(void) {
        _cleanup_(otlp_freep) struct otlp *o = NULL;
        struct uplink_options options = { .max_bytes = 128 << 20, /* nothing is forced out */
                                          .user_agent = "test/1" };
        sd_event *e = NULL;
        struct uplink *u;
        size_t before, live_before;
        char dir[64];

        scratch_make(dir);
        options.spool_dir = dir;
        ASSERT_OK(sd_event_new(&e));
        ASSERT_OK(otlp_new(NULL, 0, "0", &o));
        ASSERT_OK(uplink_new(e, &options, &u));
        for (unsigned i = 0; i < 1000; i++)
                one_round(e, u, o, i);
        ASSERT_TRUE(calls > 0); /* the counting works */
        before = calls;
        live_before = live;
        for (unsigned i = 0; i < 1000; i++)
                one_round(e, u, o, i);
        ASSERT_TRUE(calls - before <= 1000 * PIECES_MAX);
        ASSERT_TRUE(live <= live_before + PIECES_MAX); /* what the last rounds have not synced yet */
        uplink_free(u);
        sd_event_unref(e);
        scratch_clear(dir);
}

TEST_MAIN(test_steady_state)
