/* SPDX-License-Identifier: Apache-2.0 */
/* What is lost is accounted for, once: delivered plus lost is what was durable, through damage, limits and
 * reopening. */
#include "crc32c.h"
#include "spool-support.h"

#define MAX_RECORD 3000

/* Each record stands for so many items. */
static uint64_t items_of(uint64_t n) {
        return n % 5 + 1;
}

static uint64_t count(const void *data, size_t len) {
        uint64_t n;

        ASSERT_TRUE(len >= 16);
        memcpy(&n, (const uint8_t *) data + 8, 8);
        return items_of(n);
}

static const struct spool_options small = { .max_bytes = 8 * SPOOL_SEGMENT_MIN,
                                            .segment_bytes = SPOOL_SEGMENT_MIN,
                                            .count = count };

static void append(struct spool *s, uint64_t to) {
        struct spool_stats st;
        uint8_t buf[MAX_RECORD];
        uint64_t seq = 0;

        for (spool_get_stats(s, &st); st.next_seq <= to; spool_get_stats(s, &st))
                ASSERT_OK(spool_append(s, buf, record_make(1, st.next_seq, buf, sizeof(buf)), &seq));
        ASSERT_OK(spool_sync(s));
}

static uint64_t items_between(uint64_t from, uint64_t to) {
        uint64_t sum = 0;

        for (uint64_t n = from; n <= to; n++)
                sum += items_of(n);
        return sum;
}

/* Delivers up to n records one by one from the oldest; returns how many, and adds their items. */
static uint64_t deliver(struct spool *s, uint64_t n, uint64_t *items) {
        uint8_t buf[MAX_RECORD];
        uint64_t seq, got = 0;
        size_t len;

        while (got < n && spool_read(s, 0, buf, sizeof(buf), &len, &seq) > 0) {
                *items += count(buf, len);
                spool_settle(s, seq, NULL);
                got++;
        }
        return got;
}

/* Closes and takes all gaps: the sums of what they tell. */
static struct spool_gap take_all(struct spool *s, uint64_t by_reason[static _SPOOL_LOSS_MAX]) {
        struct spool_gap sum = { 0 };

        memset(by_reason, 0, _SPOOL_LOSS_MAX * sizeof(*by_reason));
        while (ledger_close_gaps(spool_ledger(s))) {
                int fd;

                ASSERT_OK(ledger_begin(spool_ledger(s), &fd));
                ASSERT_EQ(ledger_begin(spool_ledger(s), &(int) { -1 }), -EBUSY);
                ASSERT_OK(fdatasync(fd));
                (void) close(fd);
                ledger_end(spool_ledger(s), 0);
                for (enum spool_loss why = 0; why < _SPOOL_LOSS_MAX; why++) {
                        const struct spool_gap *g = ledger_gap(spool_ledger(s), why);

                        if (!g)
                                continue;
                        ASSERT_TRUE(g->from_seq <= g->to_seq && g->records <= g->to_seq - g->from_seq + 1);
                        sum.records += g->records;
                        sum.items += g->items;
                        sum.number = MAX(sum.number, g->number);
                        by_reason[why] += g->records;
                        ledger_told(spool_ledger(s), why);
                }
        }
        return sum;
}

static struct spool *reopen(struct spool *s, const char *dir) {
        ASSERT_OK(ledger_save(spool_ledger(s)));
        spool_free(s);
        ASSERT_OK(spool_open(dir, &small, &s));
        return s;
}

/* The byte limit, with reopening (which finds the account, and does not count twice) and with a record on
 * its way. */
static void test_byte_limit(void) {
        for (unsigned how = 0; how < 4; how++) {
                uint64_t by[_SPOOL_LOSS_MAX], items = 0, delivered, total = 3000;
                struct spool_stats st;
                struct spool_gap sum;
                struct spool *s;
                char dir[64];

                scratch_make(dir);
                ASSERT_OK(spool_open(dir, &small, &s));
                append(s, 20);
                delivered = deliver(s, 3, &items);
                if (how & 1)
                        spool_hold(s, 4);
                append(s, total);
                if (how & 2)
                        s = reopen(s, dir);
                spool_get_stats(s, &st);
                if (how & 1)
                        ASSERT_EQ(st.first_seq, 4); /* spared */
                ASSERT_TRUE(st.bytes <= small.max_bytes);
                delivered += deliver(s, UINT64_MAX, &items);
                sum = take_all(s, by);
                ASSERT_TRUE(sum.records > 1000);
                ASSERT_EQ(by[SPOOL_BYTE_LIMIT], sum.records);
                ASSERT_EQ(delivered + sum.records, total);
                ASSERT_EQ(items + sum.items, items_between(1, total));
                s = reopen(s, dir);
                ASSERT_FALSE(ledger_close_gaps(spool_ledger(s))); /* told is told */
                append(s, total + 5);
                ASSERT_EQ(deliver(s, UINT64_MAX, &items), 5);
                spool_free(s);
                scratch_clear(dir);
        }
}

/* What is damaged is counted when it is passed, wherever it lies; the rest of a segment that goes, too. */
static void test_damage(void) {
        for (unsigned shed = 0; shed < 2; shed++) {
                uint64_t by[_SPOOL_LOSS_MAX], items = 0, delivered;
                struct spool_gap sum;
                char dir[64], path[512];
                struct spool *s;
                int fd;

                scratch_make(dir);
                ASSERT_OK(spool_open(dir, &small, &s));
                append(s, 200);
                s = reopen(s, dir);
                ASSERT_TRUE(scratch_segment(dir, false, path));
                fd = open(path, O_WRONLY | O_CLOEXEC);
                ASSERT_TRUE(fd >= 0);
                for (off_t at = 100; at < 40000; at += 5000)
                        ASSERT_EQ(pwrite(fd, "\xde\xad\xbe\xef", 4, at), 4);
                (void) close(fd);
                if (shed)
                        ASSERT_TRUE(spool_shed(s));
                delivered = deliver(s, UINT64_MAX, &items);
                sum = take_all(s, by);
                ASSERT_TRUE(by[SPOOL_DAMAGED] > 4);
                ASSERT_EQ(by[SPOOL_BYTE_LIMIT] > 0, shed);
                ASSERT_EQ(delivered + sum.records, 200);
                ASSERT_TRUE(items + sum.items < items_between(1, 200)); /* of damaged ones nobody knows */
                spool_free(s);
                scratch_clear(dir);
        }
}

/* A jump behind a torn end is no loss. */
static void test_jump_is_no_loss(void) {
        uint64_t by[_SPOOL_LOSS_MAX], items = 0, seq = 0;
        char dir[64], path[512];
        struct spool_stats st;
        struct spool *s;

        scratch_make(dir);
        ASSERT_OK(spool_open(dir, &small, &s));
        append(s, 10);
        spool_free(s);
        for (unsigned times = 0; times < 3; times++) {
                ASSERT_TRUE(scratch_segment(dir, true, path));
                ASSERT_OK(truncate(path, SPOOL_SEGMENT_MIN - 8)); /* no clean end */
                ASSERT_OK(spool_open(dir, &small, &s));
                spool_get_stats(s, &st);
                ASSERT_TRUE(st.next_seq > SPOOL_JUMP);
                ASSERT_OK(spool_append(s, "0123456789abcdef", 16, &seq));
                ASSERT_OK(spool_sync(s));
                spool_free(s);
        }
        ASSERT_OK(spool_open(dir, &small, &s));
        ASSERT_EQ(deliver(s, UINT64_MAX, &items), 13);
        ASSERT_EQ(take_all(s, by).records, 0);
        spool_free(s);
        scratch_clear(dir);
}

/* Reasons of the caller, coalesced; records that went ahead are not sent again. */
static void test_settled(void) {
        struct spool_gap lost[_SPOOL_LOSS_MAX] = { [SPOOL_THINNED] = { .records = 1, .items = 7 } };
        uint64_t items = 0, seq;
        const struct spool_gap *g;
        uint8_t buf[MAX_RECORD];
        struct spool *s;
        char dir[64];
        size_t len;

        scratch_make(dir);
        ASSERT_OK(spool_open(dir, &small, &s));
        append(s, 100);
        for (uint64_t n = 99; n <= 100; n++)
                ASSERT_OK(spool_settle_ahead(s, n, NULL));
        ASSERT_OK(spool_settle_ahead(s, 60, NULL));
        for (uint64_t n = 1; n <= 50; n++) {
                ASSERT_EQ(spool_read(s, 0, buf, sizeof(buf), &len, &seq), 1);
                ASSERT_EQ(seq, n);
                spool_settle(s, seq, n % 2 ? lost : NULL);
        }
        s = reopen(s, dir);
        ASSERT_EQ(deliver(s, UINT64_MAX, &items), 50 - 3);
        s = reopen(s, dir);
        ASSERT_EQ(deliver(s, UINT64_MAX, &items), 0);
        ASSERT_TRUE(ledger_close_gaps(spool_ledger(s)));
        s = reopen(s, dir); /* before it is told: it keeps number and content, and takes nothing more in */
        append(s, 102);
        ASSERT_EQ(spool_read(s, 0, buf, sizeof(buf), &len, &seq), 1);
        spool_settle(s, seq, lost);
        ASSERT_TRUE(ledger_close_gaps(spool_ledger(s)));
        g = ledger_gap(spool_ledger(s), SPOOL_THINNED);
        ASSERT_TRUE(g);
        ASSERT_EQ(g->number, 1);
        ASSERT_EQ(g->records, 25);
        ASSERT_EQ(g->items, 25 * 7);
        ASSERT_EQ(g->from_seq, 1);
        ASSERT_EQ(g->to_seq, 49);
        ledger_told(spool_ledger(s), SPOOL_THINNED);
        s = reopen(s, dir);
        ASSERT_TRUE(ledger_close_gaps(spool_ledger(s)));
        g = ledger_gap(spool_ledger(s), SPOOL_THINNED);
        ASSERT_EQ(g->number, 2);
        ASSERT_EQ(g->from_seq, 101);
        ASSERT_EQ(g->records, 1);
        /* not more places than can be remembered, and one is kept */
        for (uint64_t n = 200; n < 300; n += 2) {
                append(s, n);
                if (!spool_may_settle_ahead(s, n)) {
                        ASSERT_EQ(n, 214);
                        ASSERT_TRUE(spool_may_settle_ahead(s, 213)); /* adjoins */
                        break;
                }
                ASSERT_OK(spool_settle_ahead(s, n, lost));
        }
        spool_free(s);
        scratch_clear(dir);
}

/* A torn slot leaves the one before; a newer version's ledger is told and not touched. */
static void test_ledger_slots(void) {
        struct spool_gap lost[_SPOOL_LOSS_MAX] = { [SPOOL_MALFORMED] = { .records = 1 } };
        char dir[64], path[80], before[2 * 4096], after[2 * 4096];
        struct {
                uint32_t magic;
                uint16_t version, size;
                uint32_t crc, zero;
                uint8_t rest[48];
        } newer = { .magic = 0x4c555054u, .version = 2, .size = sizeof(newer), .rest = "what is to come" };
        uint64_t by[_SPOOL_LOSS_MAX];
        struct spool *s;
        int fd;

        scratch_make(dir);
        ASSERT_OK(spool_open(dir, &small, &s));
        append(s, 10);
        spool_settle(s, 1, lost);
        ASSERT_EQ(take_all(s, by).records, 1); /* synced: into slot 1, as the empty ledger is in slot 0 */
        spool_settle(s, 2, lost);
        s = reopen(s, dir); /* not synced: into slot 0 */
        spool_free(s);
        (void) snprintf(path, sizeof(path), "%s/ledger", dir);
        fd = open(path, O_RDWR | O_CLOEXEC);
        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ(pwrite(fd, "\xff", 1, 300), 1);
        ASSERT_OK(spool_open(dir, &small, &s));
        /* back at slot 1: the gap is told once more, as the same one; record 2 is sent and refused again */
        ASSERT_TRUE(ledger_close_gaps(spool_ledger(s)));
        ASSERT_EQ(ledger_gap(spool_ledger(s), SPOOL_MALFORMED)->number, 1);
        ASSERT_EQ(ledger_gap(spool_ledger(s), SPOOL_MALFORMED)->to_seq, 1);
        ledger_told(spool_ledger(s), SPOOL_MALFORMED);
        spool_settle(s, 2, lost);
        ASSERT_EQ(take_all(s, by).number, 2);
        spool_free(s);
        newer.crc = crc32c(crc32c(0, &newer, 8), (const uint8_t *) &newer + 16, sizeof(newer) - 16);
        ASSERT_EQ(pwrite(fd, &newer, sizeof(newer), 4096), (ssize_t) sizeof(newer));
        ASSERT_EQ(pread(fd, before, sizeof(before), 0), (ssize_t) sizeof(before));
        ASSERT_EQ(spool_open(dir, &small, &s), -EPROTONOSUPPORT);
        ASSERT_EQ(pread(fd, after, sizeof(after), 0), (ssize_t) sizeof(after));
        ASSERT_EQ(memcmp(before, after, sizeof(before)), 0);
        newer.rest[0]++; /* damaged: not believed */
        ASSERT_EQ(pwrite(fd, &newer, sizeof(newer), 4096), (ssize_t) sizeof(newer));
        ASSERT_OK(spool_open(dir, &small, &s));
        spool_free(s);
        (void) close(fd);
        scratch_clear(dir);
}

/* A length that is damaged asks for no larger buffer. */
static void test_damaged_length(void) {
        char dir[64], path[512];
        uint8_t buf[MAX_RECORD];
        uint64_t seq;
        struct spool *s;
        size_t len;
        int fd;

        scratch_make(dir);
        ASSERT_OK(spool_open(dir, &small, &s));
        append(s, 25);
        ASSERT_TRUE(scratch_segment(dir, true, path));
        fd = open(path, O_WRONLY | O_CLOEXEC);
        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ(pwrite(fd, "\x20\x40\x00\x00", 4, 32), 4); /* 16 KiB */
        (void) close(fd);
        ASSERT_EQ(spool_read(s, 0, buf, sizeof(buf), &len, &seq), 1);
        ASSERT_EQ(seq, 2);
        spool_free(s);
        scratch_clear(dir);
}

TEST_MAIN(test_byte_limit, test_damage, test_jump_is_no_loss, test_settled, test_ledger_slots,
          test_damaged_length)
