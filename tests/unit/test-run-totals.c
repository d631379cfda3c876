/* SPDX-License-Identifier: Apache-2.0 */
/* What watches and deaths of one run add up to, as metrics. */
#include <signal.h>

#include "run_totals_part.h"
#include "test.h"

#define MILLISECOND 1000000ull
#define TAKEN_MAX 64

struct taken {
        struct sink sink;
        struct sample samples[TAKEN_MAX];
        char values[TAKEN_MAX][SAMPLE_KEYS_MAX][32];
        uint64_t counts[TAKEN_MAX][64];
        struct sample_histogram h[TAKEN_MAX];
        size_t n;
};

static void take(struct sink *s, const struct sample *m) {
        struct taken *t = (struct taken *) s;

        ASSERT_TRUE(t->n < TAKEN_MAX);
        t->samples[t->n] = *m;
        for (size_t k = 0; k < SAMPLE_KEYS_MAX; k++) {
                ASSERT_EQ(!m->keys[k], !m->values[k]);
                (void) snprintf(t->values[t->n][k], sizeof(t->values[0][0]), "%s",
                                m->values[k] ? m->values[k] : "");
        }
        if (m->kind == SAMPLE_HISTOGRAM) {
                t->h[t->n] = *m->h;
                memcpy(t->counts[t->n], m->h->counts, (m->h->n_bounds + 1) * sizeof(uint64_t));
        }
        t->n++;
}

static size_t find(const struct taken *t, const char *name, const char *value) {
        for (size_t i = 0; i < t->n; i++)
                if (streq(t->samples[i].name, name) && streq(t->values[i][1], value)) {
                        ASSERT_STREQ(t->values[i][0], "train");
                        return i;
                }
        return TAKEN_MAX;
}

static void test_sched(void) {
        static struct sched_figures f;
        static struct taken t = { .sink = { .sample = take } };
        struct run_total total = { .run = "train" };
        size_t i;

        f.shards[1] = (struct sched_shard){ .delays = 3, .delay_ns = 40 * MILLISECOND, .preemptions = 1,
                                            .preempted_ns = 30 * MILLISECOND, .migrations = 5,
                                            .node_migrations = 2 };
        f.shards[1].buckets[0] = 2;
        f.shards[1].buckets[SCHED_BUCKETS - 1] = 1;
        f.shards[15].preempted_buckets[15] = 1;
        f.lost = 9;
        run_total_add_sched(&total, &f, 10 * USEC_PER_SEC);
        run_total_add_sched(&total, &f, USEC_PER_SEC);
        run_total_put_watched(&total, WATCH_SCHED, &t.sink);
        i = find(&t, "tpu.run.watch.time", "sched");
        ASSERT_TRUE(t.samples[i].d == 11);
        ASSERT_EQ(t.samples[find(&t, "tpu.run.watch.lost", "sched")].i, 18);
        i = find(&t, "tpu.run.sched.delay", "");
        ASSERT_EQ(t.h[i].count, 6);
        ASSERT_TRUE(fabs(t.h[i].sum - 0.08) < 1e-12 && isnan(t.h[i].min));
        ASSERT_EQ(t.h[i].n_bounds, SCHED_BUCKETS - 1);
        ASSERT_EQ(t.counts[i][0], 4);
        ASSERT_EQ(t.counts[i][SCHED_BUCKETS - 1], 2);
        i = find(&t, "tpu.run.sched.off_cpu", "preempted");
        ASSERT_EQ(t.h[i].count, 2);
        ASSERT_EQ(t.counts[i][15], 2);
        ASSERT_EQ(find(&t, "tpu.run.sched.off_cpu", "blocked"), TAKEN_MAX); /* never happened */
        ASSERT_EQ(t.samples[find(&t, "tpu.run.sched.migrations", "cpu")].i, 6);
        ASSERT_EQ(t.samples[find(&t, "tpu.run.sched.migrations", "node")].i, 4);
}

static void test_io(void) {
        static struct io_figures f;
        static struct taken t = { .sink = { .sample = take } };
        struct run_total total = { .run = "train" };
        size_t i;

        f.requests[IO_WRITE] = (struct io_times){ .n = 2, .ns = 8 * MILLISECOND, .buckets = { [12] = 2 } };
        f.calls[IO_CALL_SYNC] = (struct io_times){ .n = 1, .ns = 5 * MILLISECOND, .buckets = { [13] = 1 } };
        f.stalls = 4;
        run_total_add_io(&total, &f, USEC_PER_SEC);
        run_total_put_watched(&total, WATCH_IO, &t.sink);
        i = find(&t, "tpu.run.disk.request.duration", "write");
        ASSERT_EQ(t.h[i].count, 2);
        ASSERT_EQ(t.counts[i][12], 2);
        ASSERT_TRUE(fabs(t.h[i].sum - 0.008) < 1e-12);
        ASSERT_EQ(t.h[find(&t, "tpu.run.file.slow_call.duration", "sync")].count, 1);
        ASSERT_EQ(find(&t, "tpu.run.disk.request.duration", "read"), TAKEN_MAX);
        ASSERT_EQ(t.samples[find(&t, "tpu.run.writer.held_back", "")].i, 4);
        ASSERT_EQ(find(&t, "tpu.run.sched.delay", ""), TAKEN_MAX); /* it was not watched so */
}

static void test_deaths(void) {
        static struct taken t = { .sink = { .sample = take } };
        struct run_total total = { .run = "train" };
        struct death d = { .signal = SIGKILL, .victim = 7, .sender = 8, .sender_known = true,
                           .ended = true };
        uint64_t all = 0;

        run_total_add_death(&total, &d);
        run_total_add_death(&total, &d);
        d.by_kernel = d.out_of_memory = true;
        run_total_add_death(&total, &d);
        run_total_put_deaths(&total, &t.sink);
        ASSERT_EQ(t.n, 2);
        ASSERT_EQ(t.samples[0].i, 2);
        ASSERT_STREQ(t.values[0][1], "SIGKILL");
        ASSERT_STREQ(t.values[0][2], "process");
        ASSERT_EQ(t.samples[1].i, 1);
        ASSERT_STREQ(t.values[1][2], "out_of_memory");
        for (int signal = 1; signal < 65; signal++) {
                d.signal = signal;
                run_total_add_death(&total, &d);
        }
        t.n = 0;
        run_total_put_deaths(&total, &t.sink);
        ASSERT_EQ(t.n, RUN_DEATHS_MAX);
        ASSERT_STREQ(t.values[RUN_DEATHS_MAX - 1][1], "other");
        for (size_t i = 0; i < t.n; i++)
                all += (uint64_t) t.samples[i].i;
        ASSERT_EQ(all, 3 + 64);
}

TEST_MAIN(test_sched, test_io, test_deaths)
