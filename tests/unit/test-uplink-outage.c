/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector is away for hours, at a host's size of a push and 10 s apart. When it is back: the newest
 * first, one of a minute of what is older than ten minutes, and what is delivered and told as lost is
 * together what was durable, record by record and point by point. The real clock is the test's (--wrap).
 */
#include "http-stub.h"
#include "otlp.h"
#include "spool-support.h"
#include "uplink.h"

#define EACH (10 * USEC_PER_SEC)
#define POINTS 150
#define PUSHES_MAX (25 * 360)

static usec_t real_now;

int __real_sd_event_now(sd_event *e, clockid_t clock, uint64_t *ret);
int __wrap_sd_event_now(sd_event *e, clockid_t clock, uint64_t *ret);
int __wrap_sd_event_now(sd_event *e, clockid_t clock, uint64_t *ret) {
        int r = __real_sd_event_now(e, clock, ret);

        if (r >= 0 && clock == CLOCK_REALTIME)
                *ret = real_now;
        return r;
}

struct run {
        char dir[64];
        sd_event *event;
        struct uplink *uplink;
        struct stub *stub;
        struct otlp *otlp;
        usec_t made[PUSHES_MAX + 1];
        uint64_t n; /* pushes: each is the record of this number */
        uint64_t told_records[_SPOOL_LOSS_MAX], told_points[_SPOOL_LOSS_MAX], last_gap, forced_out;
};

static int on_gap(enum uplink_class c, uint64_t id, const struct spool_gap *g, enum spool_loss why,
                  uint64_t *ret_seq, void *userdata) {
        struct run *t = userdata;

        ASSERT_TRUE(id != 0 && c == UPLINK_METRICS && g->number == t->last_gap + 1);
        t->last_gap = g->number;
        t->told_records[why] += g->records;
        t->told_points[why] += g->items;
        if (why == SPOOL_BYTE_LIMIT)
                t->forced_out = g->to_seq;
        return uplink_submit(t->uplink, UPLINK_EVENTS, "gap", 3, ret_seq);
}

static struct uplink_class_stats stats(const struct run *t) {
        struct uplink_stats st;

        uplink_get_stats(t->uplink, &st);
        return st.classes[UPLINK_METRICS];
}

static void push(struct run *t, usec_t made) {
        const void *data;
        uint64_t seq = 0;
        char name[32];
        size_t len;

        for (unsigned i = 0; i < POINTS; i++) {
                const struct otlp_attribute a[] = { { .key = "network.interface.name", .text = "eth0" },
                                                    { .key = "queue", .number = i % 3 } };

                (void) snprintf(name, sizeof(name), "tpu.metric.%u", i / 3);
                ASSERT_OK(otlp_add_point(t->otlp, &(struct otlp_point) { .name = name,
                                                                         .is_int = true,
                                                                         .i = i,
                                                                         .time_real = made,
                                                                         .attributes = a,
                                                                         .n_attributes = 2 }));
        }
        ASSERT_OK(otlp_encode_metrics(t->otlp, &data, &len));
        ASSERT_TRUE(t->n < PUSHES_MAX);
        ASSERT_OK(uplink_submit(t->uplink, UPLINK_METRICS, data, len, &seq));
        ASSERT_EQ(seq, ++t->n);
        t->made[t->n] = made;
}

static void turn(struct run *t, unsigned n) {
        while (n-- > 0)
                ASSERT_TRUE(sd_event_run(t->event, 5 * USEC_PER_MSEC) >= 0);
}

/* On a busy machine a thread or a child may wait for its turn: what counts is time, and not turns. */
#define PATIENCE 300 /* seconds */

static bool is_late(time_t begin) {
        return time(NULL) > begin + PATIENCE;
}

/* Until the newest push is durable. */
static void settle(struct run *t) {
        for (time_t begin = time(NULL); stats(t).spool.synced_seq < t->n; turn(t, 1))
                ASSERT_FALSE(is_late(begin));
}

/* Until a request was refused: none is on its way then, and the next one is made of what is newest. */
static void until_refused(struct run *t) {
        uint64_t before = stats(t).retried;

        for (time_t begin = time(NULL); stats(t).retried == before; turn(t, 1))
                ASSERT_FALSE(is_late(begin));
}

static void begin(struct run *t, uint64_t max_bytes) {
        struct uplink_options o = { .max_bytes = max_bytes, .user_agent = "test/1", .on_gap = on_gap,
                                    .userdata = t, .gap_pause = 1, .plain = true };
        char endpoint[64];

        *t = (struct run) { 0 };
        scratch_make(t->dir);
        t->stub = stub_new(NULL, 0);
        t->stub->busy = true;
        stub_start(t->stub);
        (void) snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", t->stub->port);
        o.spool_dir = t->dir;
        o.endpoint = endpoint;
        ASSERT_OK(sd_event_new(&t->event));
        ASSERT_OK(otlp_new(NULL, 0, "0", &t->otlp));
        real_now = 1800000000 * USEC_PER_SEC;
        ASSERT_OK(uplink_new(t->event, &o, &t->uplink));
}

static void end(struct run *t) {
        uplink_free(t->uplink);
        stub_stop(t->stub);
        otlp_free(t->otlp);
        sd_event_unref(t->event);
        scratch_clear(t->dir);
}

static void outage(struct run *t, unsigned pushes) {
        for (unsigned i = 0; i < pushes; i++) {
                push(t, real_now);
                real_now += EACH;
                if (i % 20 == 0)
                        turn(t, 2);
        }
        settle(t);
        until_refused(t);
        pthread_mutex_lock(&t->stub->lock);
        ASSERT_EQ(t->stub->n_taken, 0);
        t->stub->busy = false;
        pthread_mutex_unlock(&t->stub->lock);
}

static size_t taken(struct run *t) {
        size_t n;

        pthread_mutex_lock(&t->stub->lock);
        n = t->stub->n_taken;
        pthread_mutex_unlock(&t->stub->lock);
        return n;
}

/* The number of a record of metrics; 0: it is none. */
static uint64_t number(const struct stub_taken *k) {
        const char *slash = strrchr(k->record, '/');

        return slash && streq(k->path, "/v1/metrics") ? strtoull(slash + 1, NULL, 10) : 0;
}

/* The first record of metrics that came; 0: none did. */
static uint64_t first_number(const struct run *t) {
        for (size_t i = 0; i < t->stub->n_taken; i++)
                if (number(&t->stub->taken[i]) > 0)
                        return number(&t->stub->taken[i]);
        return 0;
}

static uint64_t told_of(const struct run *t) {
        uint64_t told = 0;

        for (size_t i = 0; i < _SPOOL_LOSS_MAX; i++)
                told += t->told_records[i];
        return told;
}

/* Every push came or was told; returns how many came. */
static uint64_t check(struct run *t, bool limited) {
        static uint8_t seen[PUSHES_MAX + 1];
        uint64_t came = 0, told = 0, points = 0, oldest = 0, minute = 0;

        memset(seen, 0, sizeof(seen));
        for (size_t i = 0; i < t->stub->n_taken; i++)
                seen[number(&t->stub->taken[i])]++;
        for (uint64_t n = 1; n <= t->n; n++) {
                ASSERT_TRUE(seen[n] <= 1);
                came += seen[n];
                if (seen[n] && oldest == 0 && n > t->forced_out)
                        oldest = n;
        }
        for (size_t i = 0; i < _SPOOL_LOSS_MAX; i++) {
                told += t->told_records[i];
                points += t->told_points[i];
        }
        ASSERT_EQ(came + told, t->n);
        ASSERT_EQ((came + told) * POINTS, came * POINTS + points);
        ASSERT_EQ(told, t->told_records[SPOOL_THINNED] + t->told_records[SPOOL_BYTE_LIMIT]);
        ASSERT_EQ(t->told_records[SPOOL_BYTE_LIMIT] > 0, limited);
        ASSERT_EQ(stats(t).lost[SPOOL_THINNED], t->told_records[SPOOL_THINNED]);
        if (!limited)
                ASSERT_EQ(oldest, 1);
        for (uint64_t n = oldest; n <= t->n; n++) { /* every minute has one, and the last ten have all */
                if (seen[n])
                        minute = t->made[n] / (60 * USEC_PER_SEC);
                ASSERT_TRUE(t->made[n] / (60 * USEC_PER_SEC) == minute);
                if (t->made[n] + 600 * USEC_PER_SEC > real_now)
                        ASSERT_TRUE(seen[n]);
        }
        return came;
}

static void outage_of(uint64_t max_bytes, unsigned pushes, bool limited) {
        struct run *t = calloc(1, sizeof(*t));
        uint64_t came, newest;
        size_t looked = 0;

        ASSERT_TRUE(t);
        begin(t, max_bytes);
        outage(t, pushes);
        newest = t->n;
        for (time_t begin = time(NULL); stats(t).spool.records > 0 || taken(t) == 0;) {
                ASSERT_FALSE(is_late(begin));
                turn(t, 1);
                if (taken(t) < looked + 100)
                        continue;
                looked = taken(t); /* meanwhile the host goes on, and what is new is not kept waiting */
                real_now += EACH;
                push(t, real_now);
                settle(t);
                turn(t, 20);
        }
        ASSERT_EQ(first_number(t), newest); /* the state of now goes first */
        for (time_t begin = time(NULL); stats(t).sent + told_of(t) < t->n; turn(t, 20)) {
                ASSERT_FALSE(is_late(begin));
                uplink_refresh(t->uplink);
        }
        came = check(t, limited);
        printf("%u pushes while it was away: %" PRIu64 " came, %" PRIu64 " thinned out, %" PRIu64
               " forced out\n", pushes,
               came, t->told_records[SPOOL_THINNED], t->told_records[SPOOL_BYTE_LIMIT]);
        end(t);
        free(t);
}

/* A day when there is time for it, else three hours: so many pushes, and room for a quarter of them. */
static unsigned hours(void) {
        return getenv("FULL") ? 24 : 3;
}

static void test_away(void) {
        outage_of(256 << 20, hours() * 360, false);
}

static void test_away_with_too_little_room(void) {
        outage_of((uint64_t) hours() << 20, hours() * 360, true);
}

TEST_MAIN(test_away, test_away_with_too_little_room)
