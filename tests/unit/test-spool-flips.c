/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a spool with bits flipped, cut, zeroed or overwritten: it always opens, what it gives is what was
 * appended under that number, and what is missing is counted.
 */
#include "spool-support.h"

#define SHAPES 5
#define FILES_MAX 16
#define RECORDS_MAX 3000
#define PAGE 4096

struct file {
        char name[64];
        uint8_t *data;
        size_t len;
};

struct shape {
        const char *what;
        size_t max_record;
        uint64_t records, acked; /* numbers up to them */
        struct spool_options options;
        struct file files[FILES_MAX];
        size_t n_files;
};

static unsigned long rnd(unsigned *seed, unsigned long below) {
        return ((unsigned long) rand_r(seed) << 15 ^ (unsigned long) rand_r(seed)) % below;
}

static void keep_files(struct shape *h, const char *dir) {
        _cleanup_closedir_ DIR *d = opendir(dir);

        ASSERT_TRUE(d);
        for (const struct dirent *e; (e = readdir(d));) {
                struct file *f = &h->files[h->n_files];
                struct stat st;
                int fd;

                if (e->d_name[0] == '.')
                        continue;
                ASSERT_TRUE(h->n_files++ < FILES_MAX);
                (void) snprintf(f->name, sizeof(f->name), "%.63s", e->d_name);
                fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC);
                ASSERT_TRUE(fd >= 0);
                ASSERT_OK(fstat(fd, &st));
                f->len = (size_t) st.st_size;
                f->data = malloc(f->len + 1);
                ASSERT_TRUE(f->data);
                ASSERT_EQ(read(fd, f->data, f->len), (ssize_t) f->len);
                (void) close(fd);
        }
}

/* Writes the directory as it was kept, which = f instead of that file. */
static void put_files(const struct shape *h, const char *dir, size_t which, const struct file *f) {
        ASSERT_OK(mkdir(dir, 0700));
        for (size_t i = 0; i < h->n_files; i++) {
                const struct file *k = i == which ? f : &h->files[i];
                char path[192];
                int fd;

                (void) snprintf(path, sizeof(path), "%s/%s", dir, k->name);
                fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
                ASSERT_TRUE(fd >= 0);
                ASSERT_EQ(write(fd, k->data, k->len), (ssize_t) k->len);
                (void) close(fd);
        }
}

static void make_shape(struct shape *h, const char *dir) {
        static uint8_t buf[SPOOL_RECORD_MAX];
        struct spool_gap lost[_SPOOL_LOSS_MAX] = { [SPOOL_MALFORMED] = { .records = 1 } };
        uint64_t seq = 0;
        struct spool *s;

        ASSERT_OK(spool_open(dir, &h->options, &s));
        for (uint64_t n = 1; n <= h->records; n++) {
                ASSERT_OK(spool_append(s, buf, record_make(2, n, buf, h->max_record), &seq));
                ASSERT_EQ(seq, n);
                if (n % 8 == 0 || n == h->records)
                        ASSERT_OK(spool_sync(s));
        }
        for (uint64_t n = 1; n <= h->acked; n++) {
                spool_settle(s, n, n % 3 ? NULL : lost);
                ASSERT_OK(ledger_save(spool_ledger(s)));
                if (n == h->acked / 2 && ledger_close_gaps(spool_ledger(s))) {
                        int fd;

                        ASSERT_OK(ledger_begin(spool_ledger(s), &fd));
                        (void) close(fd);
                        ledger_end(spool_ledger(s), 0);
                }
        }
        spool_free(s);
        keep_files(h, dir);
        scratch_clear(dir);
}

static bool is_segment(const struct file *f) {
        return strlen(f->name) > 4 && streq(f->name + strlen(f->name) - 4, ".seg");
}

/* Damages a copy of f. ret_empty: zeros, which at the end of the newest segment are as if nothing had been
 * there. */
static struct file damage(const struct file *f, unsigned *seed, bool *ret_empty) {
        struct file out = *f;
        size_t at = f->len > 0 ? rnd(seed, f->len) : 0, n;
        unsigned long how = f->len == 0 ? 5 : rnd(seed, 6);

        out.data = malloc(f->len + PAGE);
        ASSERT_TRUE(out.data);
        memcpy(out.data, f->data, f->len);
        *ret_empty = how == 3;
        switch (how) {
        case 0:
        case 1:
                for (unsigned long k = rnd(seed, 3) + 1; k > 0; k--, at = rnd(seed, f->len))
                        out.data[at] ^= (uint8_t) (1u << rnd(seed, 8));
                break;
        case 2:
                out.len = at;
                break;
        case 3: /* a sector that came back empty */
                at = at / 512 * 512;
                memset(out.data + at, 0, MIN((size_t) 512, f->len - at));
                break;
        case 4: /* a page of something else */
                at = at / PAGE * PAGE;
                n = MIN((size_t) PAGE, f->len - at);
                for (size_t i = 0; i < n; i++)
                        out.data[at + i] = (uint8_t) rnd(seed, 256);
                break;
        case 5: /* longer than it was */
                for (size_t i = 0; i < PAGE; i++)
                        out.data[out.len + i] = (uint8_t) rnd(seed, rnd(seed, 2) ? 256 : 1);
                out.len += PAGE;
                break;
        }
        return out;
}

static void look(const struct shape *h, const char *dir, bool segment, bool empty) {
        static uint8_t buf[SPOOL_RECORD_MAX];
        uint64_t seq, life, n, last = 0, good = 0, missing, counted;
        struct spool_stats st;
        struct spool *s;
        size_t len;
        int r;

        ASSERT_OK(spool_open(dir, &h->options, &s));
        spool_get_stats(s, &st);
        ASSERT_TRUE(st.next_seq > h->records || (segment && empty)); /* no number is given twice */
        while ((r = spool_read(s, 0, buf, sizeof(buf), &len, &seq)) > 0) {
                ASSERT_TRUE(record_check(buf, len, h->max_record, &life, &n) && life == 2);
                ASSERT_EQ(n, seq);
                ASSERT_TRUE(seq > last && seq <= h->records);
                last = seq;
                good += seq > h->acked;
                spool_settle(s, seq, NULL);
        }
        ASSERT_OK(r);
        spool_get_stats(s, &st);
        missing = h->records - h->acked - good;
        (void) ledger_close_gaps(spool_ledger(s));
        counted = ledger_gap(spool_ledger(s), SPOOL_DAMAGED)
                          ? ledger_gap(spool_ledger(s), SPOOL_DAMAGED)->records
                          : 0;
        if (missing > 0 && !empty)
                ASSERT_TRUE(counted + st.damaged + st.torn > 0);
        if (segment && last == h->records) /* all between known ones: exactly */
                ASSERT_EQ(counted, missing);
        else
                ASSERT_TRUE(counted <= missing);
        /* and it goes on */
        ASSERT_OK(spool_append(s, buf, record_make(2, st.next_seq, buf, h->max_record), &seq));
        ASSERT_EQ(seq, st.next_seq);
        ASSERT_OK(spool_sync(s));
        ASSERT_EQ(spool_read(s, 0, buf, sizeof(buf), &len, &seq), 1);
        ASSERT_EQ(seq, st.next_seq);
        spool_free(s);
}

static void test_damage(void) {
        static struct shape shapes[SHAPES] = {
                { "one segment, begun", 400, 60, 0, { .segment_bytes = SPOOL_SEGMENT_MIN }, .n_files = 0 },
                { "one segment, partly delivered", 1500, 30, 12, { .segment_bytes = SPOOL_SEGMENT_MIN },
                  .n_files = 0 },
                { "several segments", 3000, 150, 7, { .segment_bytes = SPOOL_SEGMENT_MIN }, .n_files = 0 },
                { "large records", 60000, 12, 2, { .segment_bytes = 2 * SPOOL_SEGMENT_MIN }, .n_files = 0 },
                { "small records", 24, 2500, 900, { .segment_bytes = SPOOL_SEGMENT_MIN }, .n_files = 0 },
        };
        unsigned seed = test_seed(), rounds = getenv("FULL") ? 25000 : 2500, others = 0;
        char base[64], dir[80];

        scratch_make(base);
        (void) snprintf(dir, sizeof(dir), "%s/spool", base);
        for (size_t i = 0; i < SHAPES; i++) {
                shapes[i].options.max_bytes = 64 * SPOOL_SEGMENT_MIN;
                make_shape(&shapes[i], dir);
        }
        for (unsigned i = 0; i < rounds; i++) {
                const struct shape *h = &shapes[i % SHAPES];
                size_t which = rnd(&seed, h->n_files);
                struct file f;
                bool segment, empty;

                if (!is_segment(&h->files[which]) && rnd(&seed, 4) > 0)
                        which = rnd(&seed, h->n_files);
                segment = is_segment(&h->files[which]);
                f = damage(&h->files[which], &seed, &empty);

                others += !segment;
                put_files(h, dir, which, &f);
                look(h, dir, segment, empty);
                scratch_clear(dir);
                free(f.data);
        }
        printf("%u damaged files, %u of them no segments\n", rounds, others);
        for (size_t i = 0; i < SHAPES; i++)
                for (size_t k = 0; k < shapes[i].n_files; k++)
                        free(shapes[i].files[k].data);
        scratch_clear(base);
}

TEST_MAIN(test_damage)
