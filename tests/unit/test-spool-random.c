/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences of append, sync, read, ack, reopen and damage against a model. Without damage: exactly
 * the durable records are there, in order. With it: what is read is a record that was appended under that
 * number, in order; records in front of the damage are all there; and no number that was durable is given
 * again.
 */
#include "spool-support.h"

#define MAX_RECORD 1500
#define SEQUENCES 2500
#define STEPS 60
#define MODEL_MAX 4096

static const struct spool_options options = { .max_bytes = 64 * SPOOL_SEGMENT_MIN,
                                              .segment_bytes = SPOOL_SEGMENT_MIN };

struct model {
        char dir[64];
        struct spool *s;
        uint64_t id;
        uint64_t seqs[MODEL_MAX]; /* record n was appended under this number */
        size_t n, durable;        /* appended; synced */
        uint64_t acked, highest;  /* highest: durable number ever */
        bool damaged;             /* since then only the weaker rules hold */
};

static unsigned long rnd(unsigned *seed, unsigned long below) {
        return ((unsigned long) rand_r(seed) << 15 ^ (unsigned long) rand_r(seed)) % below;
}

static void m_open(struct model *m) {
        struct spool_stats st;

        ASSERT_OK(spool_open(m->dir, &options, &m->s));
        spool_get_stats(m->s, &st);
        ASSERT_TRUE(st.next_seq > m->highest);
        if (!m->damaged && m->id != 0)
                ASSERT_EQ(spool_id(m->s), m->id);
        m->id = spool_id(m->s);
}

static void m_append(struct model *m) {
        uint8_t buf[MAX_RECORD];
        uint64_t seq = 0;

        if (m->n == MODEL_MAX)
                return;
        ASSERT_OK(spool_append(m->s, buf, record_make(7, m->n, buf, sizeof(buf)), &seq));
        ASSERT_TRUE(m->n == 0 || seq > m->seqs[m->n - 1] || m->damaged);
        ASSERT_TRUE(seq > m->highest);
        m->seqs[m->n++] = seq;
}

static void m_sync(struct model *m) {
        ASSERT_OK(spool_sync(m->s));
        m->durable = m->n;
        if (m->n > 0)
                m->highest = MAX(m->highest, m->seqs[m->n - 1]);
}

/* Reads all from the beginning and compares. first_bad: records from this one on may be missing. */
static void m_check(struct model *m, size_t first_bad) {
        static uint8_t buf[SPOOL_RECORD_MAX]; /* a damaged length asks for more than was ever written */
        uint64_t after = 0, seq, life, n, want = 0;
        size_t len;
        int r;

        while (want < m->n && m->seqs[want] <= m->acked)
                want++;
        while ((r = spool_read(m->s, after, buf, sizeof(buf), &len, &seq)) > 0) {
                ASSERT_TRUE(record_check(buf, len, MAX_RECORD, &life, &n));
                ASSERT_EQ(life, 7);
                ASSERT_TRUE(n < m->n);
                ASSERT_EQ(m->seqs[n], seq);
                ASSERT_TRUE(seq > after && n >= want);
                if (n > want && !m->damaged)
                        test_fail(__FILE__, __LINE__, "records %llu to %llu are missing",
                                  (unsigned long long) want, (unsigned long long) n - 1);
                if (m->damaged && want < first_bad)
                        ASSERT_EQ(n, want);
                want = n + 1;
                after = seq;
        }
        ASSERT_OK(r);
        ASSERT_TRUE(want >= (m->damaged ? MIN(first_bad, m->durable) : m->durable));
}

/* Which record of the model lies at or behind this byte of the segment; m->n if none. */
static size_t record_at(const struct model *m, uint64_t first_seq, size_t offset) {
        size_t end = 32;

        for (size_t i = 0; i < m->n; i++) {
                uint8_t buf[MAX_RECORD];

                if (m->seqs[i] < first_seq)
                        continue;
                end += (16 + record_make(7, i, buf, sizeof(buf)) + 7) & ~(size_t) 7;
                if (offset < end)
                        return i;
        }
        return m->n;
}

/* Damages the youngest segment while it is closed; returns the first record that may be gone. */
static size_t m_damage(struct model *m, unsigned *seed) {
        char path[512];
        uint64_t first_seq;
        struct stat st;
        size_t at, bad;
        int fd;

        if (!scratch_segment(m->dir, true, path))
                return m->n;
        first_seq = strtoull(strrchr(path, '/') + 1, NULL, 16);
        fd = open(path, O_RDWR | O_CLOEXEC);
        ASSERT_TRUE(fd >= 0);
        ASSERT_OK(fstat(fd, &st));
        at = rnd(seed, rnd(seed, 2) ? (unsigned long) st.st_size : 6000);
        if ((off_t) at >= st.st_size)
                at = 0;
        bad = record_at(m, first_seq, at);
        if (st.st_size == 0 || rnd(seed, 3) == 0) { /* one that was just begun has no byte to turn */
                ASSERT_OK(ftruncate(fd, (off_t) at));
        } else {
                uint8_t byte;

                ASSERT_EQ(pread(fd, &byte, 1, (off_t) at), 1);
                byte ^= (uint8_t) (1u << rnd(seed, 8));
                ASSERT_EQ(pwrite(fd, &byte, 1, (off_t) at), 1);
        }
        (void) close(fd);
        if (at < 32)
                for (bad = 0; bad < m->n && m->seqs[bad] < first_seq; bad++)
                        ; /* the header: the whole segment */
        return bad;
}

static void run_sequence(unsigned *seed) {
        struct model *m = calloc(1, sizeof(*m));
        size_t first_bad = SIZE_MAX;

        ASSERT_TRUE(m);
        scratch_make(m->dir);
        m_open(m);
        for (unsigned i = 0; i < STEPS; i++) {
                unsigned long what = rnd(seed, 100);

                if (what < 60) {
                        for (unsigned long k = rnd(seed, 8); k > 0; k--)
                                m_append(m);
                } else if (what < 78) {
                        m_sync(m);
                } else if (what < 84) {
                        if (m->durable > 0) {
                                uint64_t seq = m->seqs[rnd(seed, m->durable)];

                                spool_ack(m->s, seq);
                                m->acked = MAX(m->acked, seq);
                                ASSERT_OK(ledger_save(spool_ledger(m->s)));
                        }
                } else if (what < 96) {
                        m_check(m, first_bad);
                } else {
                        m_sync(m);
                        spool_free(m->s);
                        if (what == 99) {
                                size_t bad = m_damage(m, seed);

                                first_bad = MIN(first_bad, bad);
                                m->damaged = true;
                        }
                        m_open(m);
                        m_check(m, first_bad);
                }
        }
        spool_free(m->s);
        scratch_clear(m->dir);
        free(m);
}

static void test_random(void) {
        unsigned seed = test_seed();

        for (unsigned i = 0; i < SEQUENCES; i++) {
                unsigned one = seed + i;

                run_sequence(&one);
        }
        printf("%d sequences of %d steps\n", SEQUENCES, STEPS);
}

TEST_MAIN(test_random)
