/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real spool, worked by a script, for the runner of crash points.
 *
 *     spool_driver work DIR SEED
 *             appends, rotates, delivers, loses, forces out, reopens, and says on standard output what was
 *             promised: "durable SEQ", "delivered SEQ" (before it is settled), "gap NUMBER REASON FROM TO
 *             RECORDS ITEMS" (before it is forgotten)
 *     spool_driver check DIR
 *             opens, says "record SEQ" for each record that is there and as it was made, "gap …" for what was
 *             not told, "state NEXT DAMAGED"; 1 when it cannot, or a record is wrong
 */
#include "../unit/spool-support.h"

#define MAX_RECORD 3000
#define STEPS 45

static uint64_t count(const void *data, size_t len) {
        uint64_t n = 0;

        if (len >= 16)
                memcpy(&n, (const uint8_t *) data + 8, 8);
        return n % 5 + 1;
}

static const struct spool_options options = { .max_bytes = 4 * SPOOL_SEGMENT_MIN,
                                              .segment_bytes = SPOOL_SEGMENT_MIN,
                                              .count = count };

/* One write(2) each: the runner reads them. */
_printf_(1, 2) static void say(const char *fmt, ...) {
        char text[256];
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        ASSERT_EQ(write(STDOUT_FILENO, text, (size_t) n), n);
}

static void append(struct spool *s, unsigned n) {
        uint8_t buf[MAX_RECORD];
        struct spool_stats st;
        uint64_t seq;

        while (n-- > 0) {
                spool_get_stats(s, &st);
                ASSERT_OK(spool_append(s, buf, record_make(9, st.next_seq, buf, sizeof(buf)), &seq));
                ASSERT_EQ(seq, st.next_seq);
        }
}

static void make_durable(struct spool *s, bool halves) {
        struct spool_sync_task task;
        struct spool_stats st;

        if (!halves)
                ASSERT_OK(spool_sync(s));
        else if (spool_sync_begin(s, &task) > 0) {
                for (size_t i = 0; i < task.n_fds; i++) {
                        ASSERT_OK(task.directory &&
                                  i + 1 == task.n_fds ? fsync(task.fds[i]) : fdatasync(task.fds[i]));
                        (void) close(task.fds[i]);
                }
                ASSERT_OK(spool_sync_end(s, &task, 0));
        }
        spool_get_stats(s, &st);
        say("durable %" PRIu64 "\n", st.synced_seq);
}

static void deliver(struct spool *s, unsigned n, unsigned chance) {
        uint8_t buf[MAX_RECORD];
        struct spool_stats st;
        uint64_t seq;
        size_t len;

        while (n-- > 0) {
                struct spool_gap lost[_SPOOL_LOSS_MAX] = { 0 };
                enum spool_loss why = SPOOL_MALFORMED + (chance + n) % 5;

                spool_get_stats(s, &st);
                if (chance % 3 == 0 && spool_may_settle_ahead(s, st.synced_seq)) {
                        ASSERT_TRUE(spool_read(s, st.synced_seq - 1, buf, sizeof(buf), &len, &seq) == 1);
                        spool_hold(s, seq);
                        ASSERT_OK(ledger_save(spool_ledger(s)));
                        say("delivered %" PRIu64 "\n", seq);
                        ASSERT_OK(spool_settle_ahead(s, seq, NULL));
                } else {
                        if (spool_read(s, 0, buf, sizeof(buf), &len, &seq) == 0)
                                return;
                        spool_hold(s, seq);
                        if ((chance + n) % 4 == 0 && why != SPOOL_IN_PART)
                                lost[why] = (struct spool_gap) { .records = 1, .items = count(buf, len) };
                        else
                                say("delivered %" PRIu64 "\n", seq);
                        spool_settle(s, seq, lost);
                }
                spool_hold(s, 0);
                ASSERT_OK(ledger_save(spool_ledger(s)));
        }
}

static void tell(struct spool *s, bool forget) {
        int fd;

        if (!ledger_close_gaps(spool_ledger(s)))
                return;
        ASSERT_OK(ledger_begin(spool_ledger(s), &fd));
        ASSERT_OK(fdatasync(fd));
        (void) close(fd);
        ledger_end(spool_ledger(s), 0);
        for (enum spool_loss why = 0; why < _SPOOL_LOSS_MAX; why++) {
                const struct spool_gap *g = ledger_gap(spool_ledger(s), why);

                if (!g)
                        continue;
                say("gap %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", g->number,
                    (int) why,
                    g->from_seq, g->to_seq, g->records, g->items);
                if (forget)
                        ledger_told(spool_ledger(s), why);
        }
}

static int work(const char *dir, unsigned seed) {
        struct spool *s = NULL;

        for (unsigned i = 0; i < STEPS; i++) {
                unsigned chance = (unsigned) rand_r(&seed) >> 4;

                if (i % 15 == 0) {
                        spool_free(s);
                        ASSERT_OK(spool_open(dir, &options, &s));
                }
                append(s, chance % 12);
                if (chance % 5 > 0)
                        make_durable(s, chance % 2);
                chance = (unsigned) rand_r(&seed) >> 4;
                if (chance % 2)
                        deliver(s, 1 + chance % 4, chance);
                if (chance % 7 == 0)
                        tell(s, chance % 3 > 0);
        }
        spool_free(s);
        return 0;
}

static int check(const char *dir) {
        uint8_t buf[MAX_RECORD];
        struct spool_stats st;
        uint64_t seq, life, n;
        struct spool *s;
        size_t len;
        int r;

        r = spool_open(dir, &options, &s);
        if (r < 0)
                return fprintf(stderr, "cannot be opened: %s\n", strerror(-r)), 1;
        spool_get_stats(s, &st);
        say("state %" PRIu64 " %" PRIu64 "\n", st.next_seq, st.damaged);
        while ((r = spool_read(s, 0, buf, sizeof(buf), &len, &seq)) > 0) {
                if (!record_check(buf, len, MAX_RECORD, &life, &n) || life != 9 || n != seq)
                        return fprintf(stderr, "record %" PRIu64 " is another one\n", seq), 1;
                say("record %" PRIu64 "\n", seq);
                spool_settle(s, seq, NULL);
        }
        if (r < 0)
                return fprintf(stderr, "cannot be read: %s\n", strerror(-r)), 1;
        tell(s, true);
        tell(s, true); /* what waited for the one before */
        spool_free(s);
        return 0;
}

int main(int argc, char **argv) {
        if (argc == 4 && streq(argv[1], "work"))
                return work(argv[2], (unsigned) strtoul(argv[3], NULL, 10));
        if (argc == 3 && streq(argv[1], "check"))
                return check(argv[2]);
        (void) fprintf(stderr, "Usage: spool_driver work DIR SEED | check DIR\n");
        return 64;
}
