/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole way over real HTTP on loopback, against a stub with a script. fdatasync goes through the test
 * (--wrap).
 */
#include <stdatomic.h>

#include "clock.h"
#include "http-stub.h"
#include "spool-support.h"
#include "uplink.h"

#define MAX_RECORD 200

static atomic_uint syncs_to_fail, sync_delay_ms, syncs;
static atomic_bool syncs_held; /* none returns meanwhile */

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd) {
        unsigned fail = atomic_load(&syncs_to_fail);

        if (atomic_load(&sync_delay_ms) > 0)
                (void) usleep(atomic_load(&sync_delay_ms) * 1000);
        while (atomic_load(&syncs_held))
                (void) usleep(1000);
        if (fail > 0 && fail < 1000)
                atomic_fetch_sub(&syncs_to_fail, 1);
        if (fail > 0) {
                errno = EIO;
                return -1;
        }
        if (__real_fdatasync(fd) < 0)
                return -1;
        atomic_fetch_add(&syncs, 1);
        return 0;
}

static atomic_bool disk_full;

int __real_posix_fallocate(int fd, off_t at, off_t len);
int __wrap_posix_fallocate(int fd, off_t at, off_t len);
int __wrap_posix_fallocate(int fd, off_t at, off_t len) {
        return atomic_load(&disk_full) ? ENOSPC : __real_posix_fallocate(fd, at, len);
}

struct run {
        char dir[64], endpoint[64];
        sd_event *event;
        struct uplink *uplink;
        struct stub *stub;
        bool hangs; /* its server keeps one request without an answer */
        bool gaps; /* are to be told, which is not possible yet */
        uint64_t durable[_UPLINK_CLASS_MAX], submitted[_UPLINK_CLASS_MAX];
        unsigned syncs_before[_UPLINK_CLASS_MAX]
                             [128]; /* how many syncs had returned when this number was submitted */
};

static void on_durable(enum uplink_class c, uint64_t seq, void *userdata) {
        struct run *r = userdata;

        ASSERT_TRUE(seq > r->durable[c] && seq <= r->submitted[c]);
        ASSERT_TRUE(atomic_load(&syncs) > r->syncs_before[c][seq]); /* one returned since */
        r->durable[c] = seq;
}

static int on_gap(enum uplink_class c, uint64_t id, const struct spool_gap *g, enum spool_loss why,
                  uint64_t *ret_seq, void *userdata) {
        (void) c, (void) id, (void) g, (void) why, (void) ret_seq, (void) userdata;
        return -EAGAIN;
}

static struct uplink_stats stats(struct run *r) {
        struct uplink_stats st;

        uplink_get_stats(r->uplink, &st);
        return st;
}

static void run_open(struct run *r) {
        const struct uplink_options o = { .spool_dir = r->dir, .endpoint = r->endpoint, .max_bytes = 4 << 20,
                                          .user_agent = "test/1",
                                          .timeout = r->hangs ? 5 * USEC_PER_SEC : 60 * USEC_PER_SEC,
                                          .on_durable = on_durable,
                                          .on_gap = r->gaps ? on_gap : NULL, .userdata = r };

        ASSERT_OK(uplink_new(r->event, &o, &r->uplink));
}

static void run_new(struct run *r, const enum stub_step *script, size_t n) {
        *r = (struct run) { 0 };
        scratch_make(r->dir);
        for (size_t i = 0; i < n; i++)
                /* else none is sent twice on a slow machine */
                r->hangs = r->hangs || script[i] == STUB_HANG;
        r->stub = stub_new(script, n);
        (void) snprintf(r->endpoint, sizeof(r->endpoint), "http://127.0.0.1:%u/", r->stub->port);
        ASSERT_OK(sd_event_new(&r->event));
        run_open(r);
}

static void run_end(struct run *r) {
        uplink_free(r->uplink);
        stub_stop(r->stub);
        sd_event_unref(r->event);
        scratch_clear(r->dir);
}

static void submit(struct run *r, enum uplink_class c) {
        uint8_t buf[MAX_RECORD];
        uint64_t seq = 0, next, id;

        ASSERT_OK(uplink_next(r->uplink, c, &id, &next));
        ASSERT_TRUE(next < ELEMENTSOF(r->syncs_before[c]));
        r->syncs_before[c][next] = atomic_load(&syncs);
        r->submitted[c] = next;
        ASSERT_OK(uplink_submit(r->uplink, c, buf, record_make((uint64_t) c, next, buf, sizeof(buf)), &seq));
        ASSERT_EQ(seq, next);
}

/* Runs the loop until the stub took n requests and all of them are acknowledged. */
static void until(struct run *r, uint64_t sent, uint64_t refused) {
        usec_t end = clock_boot(&clock_system) + 300 * USEC_PER_SEC;

        while (clock_boot(&clock_system) < end) {
                struct uplink_stats st = stats(r);
                uint64_t s = 0, f = 0;

                for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                        s += st.classes[c].sent;
                        f += st.classes[c].refused;
                }
                if (s >= sent && f >= refused)
                        return;
                ASSERT_TRUE(sd_event_run(r->event, 10 * USEC_PER_MSEC) >= 0);
        }
        test_fail(__FILE__, __LINE__, "not delivered in time: %s", stats(r).last_error);
}

static void spin(struct run *r, usec_t span) {
        usec_t end = clock_boot(&clock_system) + span;

        while (clock_boot(&clock_system) < end)
                ASSERT_TRUE(sd_event_run(r->event, 10 * USEC_PER_MSEC) >= 0);
}

/*
 * Every record 1 … n of the class was taken, whole and under its own number; returns how many came more
 * than once.
 */
static size_t expect_taken(struct run *r, enum uplink_class c, uint64_t n) {
        uint64_t id, next, got = 0, more = 0;
        bool *seen = calloc(n + 1, sizeof(*seen));

        ASSERT_TRUE(seen);
        ASSERT_OK(uplink_next(r->uplink, c, &id, &next));
        pthread_mutex_lock(&r->stub->lock);
        for (size_t i = 0; i < r->stub->n_taken; i++) {
                const struct stub_taken *t = &r->stub->taken[i];
                uint64_t seq, life, number;
                char wanted[96];

                if (!streq(t->path, c == UPLINK_EVENTS ? "/v1/logs" : "/v1/metrics"))
                        continue;
                ASSERT_TRUE(record_check(t->body, t->len, MAX_RECORD, &life, &number));
                (void) snprintf(wanted, sizeof(wanted), "%016" PRIx64 "/%s/%" PRIu64, id,
                                uplink_class_name(c), number);
                ASSERT_STREQ(t->record, wanted);
                ASSERT_EQ(life, c);
                seq = number;
                ASSERT_TRUE(seq >= 1 && seq <= n);
                ASSERT_TRUE(seen[seq] || seq == got + 1); /* in order */
                more += seen[seq];
                got = MAX(got, seq);
                seen[seq] = true;
        }
        pthread_mutex_unlock(&r->stub->lock);
        ASSERT_EQ(got, n);
        free(seen);
        return more;
}

static void test_delivers_and_keeps_alive(void) {
        struct uplink_stats st;
        struct run r;

        run_new(&r, NULL, 0);
        stub_start(r.stub);
        for (int i = 0; i < 50; i++) {
                submit(&r, UPLINK_EVENTS);
                submit(&r, UPLINK_METRICS);
        }
        until(&r, 100, 0);
        ASSERT_EQ(expect_taken(&r, UPLINK_EVENTS, 50), 0);
        ASSERT_EQ(expect_taken(&r, UPLINK_METRICS, 50), 0);
        st = stats(&r);
        ASSERT_TRUE(r.stub->connections <= 2); /* kept: at most one a class for 100 requests */
        ASSERT_EQ(r.durable[UPLINK_EVENTS], 50);
        ASSERT_EQ(r.durable[UPLINK_METRICS], 50);
        ASSERT_EQ(st.classes[UPLINK_EVENTS].spool.records, 0);
        ASSERT_EQ(st.classes[UPLINK_EVENTS].retried, 0);
        ASSERT_TRUE(st.durable && !st.parked && st.last_ok_boot > 0);
        ASSERT_STREQ(st.last_error, "");
        run_end(&r);
}

/*
 * 503 with Retry-After, an answer that never comes, one that breaks off, 400, partial success, an endless
 * answer: in one go.
 */
static void test_every_answer(void) {
        static const enum stub_step script[] = { STUB_BUSY, STUB_HANG,    STUB_RESET, STUB_OK,
                                                 STUB_BAD,  STUB_PARTIAL, STUB_HUGE,  STUB_OK };
        usec_t start = clock_boot(&clock_system);
        struct uplink_stats st;
        struct run r;

        run_new(&r, script, ELEMENTSOF(script));
        stub_start(r.stub);
        for (int i = 0; i < 4; i++)
                submit(&r, UPLINK_EVENTS);
        until(&r, 3, 1);
        st = stats(&r);
        ASSERT_EQ(st.classes[UPLINK_EVENTS].sent, 3);
        ASSERT_EQ(st.classes[UPLINK_EVENTS].retried, 4); /* busy, hang, reset, endless */
        ASSERT_EQ(st.classes[UPLINK_EVENTS].refused, 1);
        ASSERT_EQ(st.classes[UPLINK_EVENTS].lost[SPOOL_IN_PART], 5);
        ASSERT_EQ(st.classes[UPLINK_EVENTS].spool.records, 0);
        ASSERT_EQ(r.stub->requests, 8);
        ASSERT_TRUE(clock_boot(&clock_system) - start >= USEC_PER_SEC); /* Retry-After: 1 */
        ASSERT_STREQ(r.stub->taken[0].record,
                     r.stub->taken[1].record); /* the broken answer: once more, same number */
        ASSERT_FALSE(st.parked);
        run_end(&r);
}

static void test_parks_and_keeps(void) {
        static const enum stub_step script[] = { STUB_DENIED, STUB_PAGE };
        struct uplink_stats st;
        struct run r;

        run_new(&r, script, ELEMENTSOF(script));
        stub_start(r.stub);
        submit(&r, UPLINK_EVENTS);
        submit(&r, UPLINK_EVENTS);
        spin(&r, 300 * USEC_PER_MSEC);
        submit(&r, UPLINK_METRICS);
        spin(&r, 1500 * USEC_PER_MSEC);
        st = stats(&r);
        ASSERT_TRUE(st.parked && st.classes[UPLINK_EVENTS].parked && st.classes[UPLINK_METRICS].parked);
        ASSERT_EQ(r.stub->requests, 2); /* no storm: one try each */
        ASSERT_EQ(st.classes[UPLINK_EVENTS].spool.records, 2);
        ASSERT_EQ(st.classes[UPLINK_METRICS].spool.records, 1);
        ASSERT_TRUE(strstr(st.last_error, "OTLP"));
        uplink_free(r.uplink);
        run_open(&r); /* nothing of it was lost, and a restart tries at once */
        until(&r, 3, 0);
        ASSERT_EQ(expect_taken(&r, UPLINK_EVENTS, 2), 0);
        ASSERT_EQ(expect_taken(&r, UPLINK_METRICS, 1), 0);
        ASSERT_FALSE(stats(&r).parked);
        run_end(&r);
}

static void test_refused_connection_then_up(void) {
        struct uplink_stats st;
        struct run r;

        run_new(&r, NULL, 0);
        for (int i = 0; i < 20; i++)
                submit(&r, UPLINK_EVENTS);
        for (unsigned i = 0; i < 600 && stats(&r).classes[UPLINK_EVENTS].retried == 0; i++)
                spin(&r, 100 * USEC_PER_MSEC);
        st = stats(&r);
        ASSERT_TRUE(st.classes[UPLINK_EVENTS].retried >= 1 && st.classes[UPLINK_EVENTS].sent == 0);
        ASSERT_TRUE(strstr(st.last_error, "connect"));
        uplink_free(r.uplink); /* and over a restart */
        run_open(&r);
        stub_start(r.stub);
        until(&r, 20, 0);
        ASSERT_EQ(expect_taken(&r, UPLINK_EVENTS, 20), 0);
        run_end(&r);
}

/* While the disk is slow nothing is acknowledged and nothing is sent. */
static void test_nothing_before_the_sync(void) {
        struct run r;

        run_new(&r, NULL, 0);
        stub_start(r.stub);
        atomic_store(&sync_delay_ms, 400);
        submit(&r, UPLINK_EVENTS);
        spin(&r, 250 * USEC_PER_MSEC);
        ASSERT_EQ(r.durable[UPLINK_EVENTS], 0);
        ASSERT_EQ(stub_taken_count(r.stub), 0);
        atomic_store(&sync_delay_ms, 0);
        until(&r, 1, 0);
        ASSERT_EQ(r.durable[UPLINK_EVENTS], 1);
        run_end(&r);
}

/* fdatasync fails: not durable, not sent, said; when the disk is back all of it is. */
static void test_failing_disk(void) {
        struct uplink_stats st;
        struct run r;

        run_new(&r, NULL, 0);
        stub_start(r.stub);
        atomic_store(&syncs_to_fail, 1000); /* all, until it is set again */
        for (int i = 0; i < 5; i++)
                submit(&r, UPLINK_EVENTS);
        spin(&r, 300 * USEC_PER_MSEC);
        st = stats(&r);
        ASSERT_FALSE(st.durable);
        ASSERT_TRUE(strstr(st.spool_error, "Input/output error"));
        ASSERT_EQ(r.durable[UPLINK_EVENTS], 0);
        ASSERT_EQ(stub_taken_count(r.stub), 0);
        atomic_store(&syncs_to_fail, 0);
        until(&r, 5, 0);
        ASSERT_EQ(expect_taken(&r, UPLINK_EVENTS, 5), 0);
        ASSERT_EQ(r.durable[UPLINK_EVENTS], 5);
        st = stats(&r);
        ASSERT_TRUE(st.durable);
        ASSERT_STREQ(st.spool_error, "");
        run_end(&r);
}

/* An end in good order while the account of what was lost waits for the disk: what was decided since is
 * known. */
static void test_stop_while_the_ledger_is_synced(void) {
        static const enum stub_step script[] = { STUB_BAD, STUB_BUSY, STUB_BAD };
        struct run r;

        run_new(&r, script, ELEMENTSOF(script));
        uplink_free(r.uplink);
        r.gaps = true;
        run_open(&r);
        submit(&r, UPLINK_EVENTS);
        submit(&r, UPLINK_EVENTS);
        while (r.durable[UPLINK_EVENTS] < 2) /* nobody listens yet */
                ASSERT_TRUE(sd_event_run(r.event, 10 * USEC_PER_MSEC) >= 0);
        stub_start(r.stub);
        until(&r, 0, 1);
        atomic_store(&syncs_held, true);
        uplink_refresh(r.uplink); /* the gap of the first one */
        until(&r, 0, 2);
        atomic_store(&syncs_held, false);
        uplink_free(r.uplink);
        run_open(&r);
        ASSERT_EQ(stats(&r).classes[UPLINK_EVENTS].spool.first_seq, 3);
        run_end(&r);
}

/* What meets a full disk is refused and counted; that the disk has room again is noticed without another. */
static void test_full_disk_heals(void) {
        struct uplink_stats st;
        uint64_t seq = 0;
        struct run r;

        run_new(&r, NULL, 0);
        stub_start(r.stub);
        atomic_store(&disk_full, true);
        ASSERT_EQ(uplink_submit(r.uplink, UPLINK_EVENTS, "x", 1, &seq), -ENOSPC);
        spin(&r, 1500 * USEC_PER_MSEC);
        st = stats(&r);
        ASSERT_FALSE(st.durable);
        ASSERT_TRUE(strstr(st.spool_error, "No space left on device"));
        ASSERT_EQ(st.classes[UPLINK_EVENTS].not_kept, 1);
        atomic_store(&disk_full, false);
        for (int i = 0; i < 500 && !stats(&r).durable; i++)
                ASSERT_TRUE(sd_event_run(r.event, 10 * USEC_PER_MSEC) >= 0);
        st = stats(&r);
        ASSERT_TRUE(st.durable);
        ASSERT_STREQ(st.spool_error, "");
        submit(&r, UPLINK_EVENTS);
        until(&r, 1, 0);
        ASSERT_EQ(r.durable[UPLINK_EVENTS], 1);
        run_end(&r);
}

static void test_metrics_are_synced_within_a_second(void) {
        usec_t start;
        struct run r;

        run_new(&r, NULL, 0);
        stub_start(r.stub);
        submit(&r, UPLINK_METRICS);
        start = clock_boot(&clock_system);
        while (r.durable[UPLINK_METRICS] == 0) {
                ASSERT_TRUE(sd_event_run(r.event, 10 * USEC_PER_MSEC) >= 0);
                ASSERT_TRUE(clock_boot(&clock_system) - start < 300 * USEC_PER_SEC);
        }
        run_end(&r);
}

static void test_unusable_spool(void) {
        struct uplink_options o = { .spool_dir = "/proc/nowhere/spool",
                                    .max_bytes = 4 << 20,
                                    .user_agent = "test/1" };
        struct uplink_stats st;
        sd_event *e = NULL;
        struct uplink *u, *other;
        uint64_t seq = 0;
        char dir[64];

        ASSERT_OK(sd_event_new(&e));
        ASSERT_OK(uplink_new(e, &o, &u)); /* the program goes on */
        ASSERT_TRUE(uplink_submit(u, UPLINK_EVENTS, "x", 1, &seq) < 0);
        uplink_get_stats(u, &st);
        ASSERT_FALSE(st.durable);
        ASSERT_EQ(st.classes[UPLINK_EVENTS].not_kept, 1);
        ASSERT_TRUE(strstr(st.spool_error, "/proc/nowhere/spool"));
        uplink_free(u);
        scratch_make(dir);
        o.spool_dir = dir;
        ASSERT_OK(uplink_new(e, &o, &u));
        ASSERT_EQ(uplink_new(e, &o, &other), -EBUSY);
        uplink_free(u);
        o.endpoint = "http://user:secret@h/";
        ASSERT_EQ(uplink_new(e, &o, &u), -EINVAL);
        o.endpoint = "ftp://h/";
        ASSERT_EQ(uplink_new(e, &o, &u), -EINVAL);
        sd_event_unref(e);
        scratch_clear(dir);
}

TEST_MAIN(test_delivers_and_keeps_alive, test_every_answer, test_parks_and_keeps,
          test_refused_connection_then_up, test_nothing_before_the_sync, test_failing_disk,
          test_stop_while_the_ledger_is_synced, test_full_disk_heals,
          test_metrics_are_synced_within_a_second,
          test_unusable_spool)
