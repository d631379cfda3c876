/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/wait.h>

#include "crc32c.h"
#define SCRATCH_ON_DISK
#include "spool-support.h"

#define MAX_RECORD 3000
static const struct spool_options small = { .max_bytes = 8 * SPOOL_SEGMENT_MIN,
                                            .segment_bytes = SPOOL_SEGMENT_MIN };

static uint64_t append(struct spool *s, uint64_t n) {
        uint8_t buf[MAX_RECORD];
        uint64_t seq = 0;

        ASSERT_OK(spool_append(s, buf, record_make(1, n, buf, sizeof(buf)), &seq));
        return seq;
}

/* Reads the next record behind after; checks that it is record n = seq - 1 of this test. 0: none. */
static uint64_t read_next(struct spool *s, uint64_t after) {
        uint8_t buf[MAX_RECORD];
        uint64_t seq, life, n;
        size_t len;
        int r;

        r = spool_read(s, after, buf, sizeof(buf), &len, &seq);
        ASSERT_TRUE(r >= 0);
        if (r == 0)
                return 0;
        ASSERT_TRUE(record_check(buf, len, MAX_RECORD, &life, &n));
        ASSERT_EQ(n, seq - 1);
        return seq;
}

static struct spool *open_ok(const char *dir) {
        struct spool *s = NULL;

        ASSERT_OK(spool_open(dir, &small, &s));
        return s;
}

static void test_crc32c(void) {
        uint8_t data[257];

        ASSERT_EQ(crc32c(0, "123456789", 9), 0xe3069283u); /* the check value of CRC-32C */
        ASSERT_EQ(crc32c_bitwise(0, "123456789", 9), 0xe3069283u);
        for (size_t i = 0; i < sizeof(data); i++)
                data[i] = (uint8_t) (i * 7);
        for (size_t i = 0; i < sizeof(data); i++) {
                ASSERT_EQ(crc32c(5, data, i), crc32c_bitwise(5, data, i));
                ASSERT_EQ(crc32c(crc32c(0, data, i), data + i, sizeof(data) - i),
                          crc32c(0, data, sizeof(data)));
        }
}

static void test_only_durable_is_read(void) {
        _cleanup_(spool_freep) struct spool *s = NULL;
        struct spool_sync_task task;
        struct spool_stats st;
        char dir[64];

        scratch_make(dir);
        s = open_ok(dir);
        ASSERT_EQ(read_next(s, 0), 0);
        ASSERT_EQ(append(s, 0), 1);
        ASSERT_EQ(append(s, 1), 2);
        ASSERT_EQ(read_next(s, 0), 0); /* appended, not durable: must not be sent */
        spool_ack(s, 2);               /* nor can it have been delivered */
        spool_get_stats(s, &st);
        ASSERT_EQ(st.records, 2);
        ASSERT_EQ(st.synced_seq, 0);
        ASSERT_EQ(spool_sync_begin(s, &task), 1);
        ASSERT_EQ(task.n_fds, 2); /* the segment and, as it is new, the directory */
        ASSERT_EQ(append(s, 2), 3);
        for (size_t i = 0; i < task.n_fds; i++)
                ASSERT_OK(close(task.fds[i]));
        ASSERT_OK(spool_sync_end(s, &task, 0));
        ASSERT_EQ(read_next(s, 0), 1);
        ASSERT_EQ(read_next(s, 1), 2);
        ASSERT_EQ(read_next(s, 2), 0); /* came after the sync began */
        ASSERT_OK(spool_sync(s));
        ASSERT_EQ(read_next(s, 2), 3);
        ASSERT_EQ(spool_sync_begin(s, &task), 0);
        scratch_clear(dir);
}

static void test_reopen_and_ledger(void) {
        struct spool *s;
        struct spool_stats st;
        char dir[64];
        uint64_t id, seq = 0;

        scratch_make(dir);
        s = open_ok(dir);
        id = spool_id(s);
        ASSERT_TRUE(id != 0);
        for (uint64_t n = 0; n < 200; n++)
                ASSERT_EQ(append(s, n), n + 1);
        ASSERT_OK(spool_sync(s));
        spool_ack(s, 150);
        ASSERT_OK(ledger_save(spool_ledger(s)));
        spool_free(s);
        s = open_ok(dir);
        ASSERT_EQ(spool_id(s), id);
        spool_get_stats(s, &st);
        ASSERT_EQ(st.records, 50);
        ASSERT_EQ(st.first_seq, 151);
        ASSERT_EQ(st.next_seq, 201);
        ASSERT_EQ(st.synced_seq, 200);
        ASSERT_EQ(st.torn, 0);
        for (uint64_t n = 150; n < 200; n++) {
                seq = read_next(s, seq);
                ASSERT_EQ(seq, n + 1);
        }
        ASSERT_EQ(read_next(s, seq), 0);
        spool_ack(s, 200);
        spool_get_stats(s, &st);
        ASSERT_EQ(st.records, 0);
        ASSERT_EQ(st.bytes, SPOOL_SEGMENT_MIN); /* one stays: it keeps the numbers */
        spool_free(s);
        /* the ledger is lost: what is kept is delivered again, and no number is used twice */
        (void) snprintf(dir + strlen(dir), 16, "/ledger");
        ASSERT_OK(unlink(dir));
        *strrchr(dir, '/') = '\0';
        s = open_ok(dir);
        ASSERT_EQ(append(s, 200), 201);
        spool_free(s);
        scratch_clear(dir);
}

static void test_byte_limit(void) {
        _cleanup_(spool_freep) struct spool *s = NULL;
        uint64_t seq = 0, last = 0, total = 3000, seen = 0;
        struct spool_stats st;
        char dir[64];

        scratch_make(dir);
        s = open_ok(dir);
        for (uint64_t n = 0; n < total; n++) {
                ASSERT_EQ(append(s, n), n + 1);
                if (n % 7 == 0)
                        ASSERT_OK(spool_sync(s));
                spool_get_stats(s, &st);
                ASSERT_TRUE(st.bytes <= small.max_bytes + SPOOL_SEGMENT_MIN);
        }
        ASSERT_OK(spool_sync(s));
        spool_get_stats(s, &st);
        ASSERT_TRUE(st.bytes <= small.max_bytes);
        ASSERT_TRUE(st.dropped_bytes_limit > 0);
        ASSERT_EQ(st.dropped_bytes_limit + st.records, total);
        ASSERT_EQ(st.first_seq, st.dropped_bytes_limit + 1); /* the oldest went */
        while ((seq = read_next(s, seq)) > 0) {
                ASSERT_TRUE(last == 0 || seq == last + 1);
                last = seq;
                seen++;
        }
        ASSERT_EQ(last, total);
        ASSERT_EQ(seen, st.records);
        scratch_clear(dir);
}

/* A child of the last owner that has not come to its exec(3) yet has our lock: it is waited for. */
static void test_lock_of_a_child(void) {
        struct spool *s = NULL;
        char dir[64];
        pid_t child;

        scratch_make(dir);
        ASSERT_OK(spool_open(dir, &small, &s));
        child = fork();
        if (child == 0) {
                (void) usleep(200 * USEC_PER_MSEC);
                _exit(0);
        }
        spool_free(s);
        ASSERT_OK(spool_open(dir, &small, &s));
        ASSERT_EQ(waitpid(child, NULL, 0), child);
        spool_free(s);
        scratch_clear(dir);
}

static void test_limits_and_lock(void) {
        static uint8_t big[SPOOL_RECORD_MAX + 1];
        struct spool_options wrong = { .max_bytes = SPOOL_SEGMENT_MIN, .segment_bytes = SPOOL_SEGMENT_MIN };
        struct spool_options wide = { .max_bytes = 8 << 20, .segment_bytes = 2 << 20 };
        struct spool *s = NULL, *other = NULL;
        uint64_t seq = 77;
        size_t len;
        char dir[64];

        scratch_make(dir);
        ASSERT_EQ(spool_open(dir, &wrong, &s), -EINVAL);
        ASSERT_EQ(spool_open("/nowhere/at/all", &small, &s), -ENOENT);
        ASSERT_OK(spool_open(dir, &wide, &s));
        ASSERT_EQ(spool_open(dir, &wide, &other), -EBUSY);
        ASSERT_EQ(spool_append(s, big, 0, &seq), -EINVAL);
        ASSERT_EQ(spool_append(s, big, sizeof(big), &seq), -E2BIG);
        ASSERT_EQ(seq, 77);
        ASSERT_OK(spool_append(s, big, SPOOL_RECORD_MAX, &seq));
        ASSERT_OK(spool_append(s, big, SPOOL_RECORD_MAX, &seq));
        ASSERT_OK(spool_sync(s));
        ASSERT_EQ(spool_read(s, 0, big, SPOOL_RECORD_MAX - 1, &len, &seq), -ENOBUFS);
        ASSERT_EQ(spool_read(s, 0, big, SPOOL_RECORD_MAX, &len, &seq), 1);
        ASSERT_EQ(len, SPOOL_RECORD_MAX);
        spool_free(s);
        ASSERT_OK(spool_open(dir, &small, &s)); /* smaller segments than the ones found */
        ASSERT_EQ(spool_read(s, 1, big, SPOOL_RECORD_MAX, &len, &seq), 1);
        ASSERT_EQ(spool_append(s, big, SPOOL_SEGMENT_MIN, &seq), -E2BIG);
        spool_free(s);
        scratch_clear(dir);
}

static void patch_file(const char *path, off_t at, const void *data, size_t len) {
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ(pwrite(fd, data, len, at), (ssize_t) len);
}

static void test_newer_version(void) {
        struct segment_header h = { .magic = SEGMENT_MAGIC,
                                    .version = SPOOL_VERSION + 1,
                                    .capacity = 1,
                                    .spool_id = 5,
                                    .first_seq = 1 };
        struct spool *s;
        struct stat st;
        char dir[64], path[512];

        scratch_make(dir);
        s = open_ok(dir);
        (void) append(s, 0);
        ASSERT_OK(spool_sync(s));
        spool_free(s);
        ASSERT_TRUE(scratch_segment(dir, true, path));
        h.crc = segment_header_crc(&h);
        patch_file(path, 0, &h, sizeof(h));
        ASSERT_EQ(spool_open(dir, &small, &s), -EPROTONOSUPPORT);
        ASSERT_OK(stat(path, &st)); /* and it is still there */
        ASSERT_EQ(st.st_size, SPOOL_SEGMENT_MIN);
        scratch_clear(dir);
}

/* A bad record in the middle is skipped and counted, found on open or while running. */
static void test_damage_in_the_middle(void) {
        struct spool *s;
        struct spool_stats st;
        char dir[64], path[512];

        for (int running = 0; running < 2; running++) {
                scratch_make(dir);
                s = open_ok(dir);
                for (uint64_t n = 0; n < 20; n++)
                        (void) append(s, n);
                ASSERT_OK(spool_sync(s));
                ASSERT_TRUE(scratch_segment(dir, true, path));
                if (!running)
                        spool_free(s);
                patch_file(path, sizeof(struct segment_header) + 20, "\xde\xad\xbe\xef",
                           4); /* inside of record 1 */
                if (!running)
                        s = open_ok(dir);
                ASSERT_EQ(read_next(s, 0), 2);
                for (uint64_t seq = 2; seq < 20; seq++)
                        ASSERT_EQ(read_next(s, seq), seq + 1);
                spool_get_stats(s, &st);
                ASSERT_EQ(st.damaged, 1);
                ASSERT_EQ(st.records, 19);
                ASSERT_EQ(append(s, 20), 21);
                ASSERT_OK(spool_sync(s));
                ASSERT_EQ(read_next(s, 20), 21);
                spool_free(s);
                scratch_clear(dir);
        }
}

/* Where the end of the newest segment is damaged, no number that could have been there is given again. */
static void test_numbers_are_never_reused(void) {
        static const char *const how[] = { "flip the last record", "cut the file", "destroy the header",
                                           "lose the ledger" };
        struct spool_stats st;
        struct spool *s;
        char dir[64], path[512];

        for (size_t i = 0; i < ELEMENTSOF(how); i++) {
                uint64_t id, end;

                scratch_make(dir);
                s = open_ok(dir);
                id = spool_id(s);
                for (uint64_t n = 0; n < 10; n++)
                        (void) append(s, n);
                ASSERT_OK(spool_sync(s));
                spool_free(s);
                ASSERT_TRUE(scratch_segment(dir, true, path));
                end = sizeof(struct segment_header);
                for (uint64_t n = 0; n < 10; n++) {
                        uint8_t buf[MAX_RECORD];

                        end += segment_record_size(record_make(1, n, buf, sizeof(buf)));
                }
                if (i == 0)
                        patch_file(path, (off_t) end - 12, "\xff\xfe\xfd", 3);
                if (i == 1)
                        ASSERT_OK(truncate(path, (off_t) end - 100));
                if (i == 2)
                        patch_file(path, 0, "xxxx", 4);
                if (i == 3) {
                        (void) snprintf(path, sizeof(path), "%s/ledger", dir);
                        ASSERT_OK(unlink(path));
                }
                s = open_ok(dir);
                spool_get_stats(s, &st);
                ASSERT_EQ(st.torn, i < 3);
                if (i < 3)
                        ASSERT_TRUE(st.next_seq > 10);
                ASSERT_EQ(st.records, i == 2 ? 0 : i == 3 ? 10 : 9);
                if (i != 2)
                        ASSERT_EQ(spool_id(s), id);
                ASSERT_EQ(append(s, st.next_seq - 1), st.next_seq);
                ASSERT_OK(spool_sync(s));
                ASSERT_EQ(read_next(s, i == 2 ? 0 : 10), st.next_seq);
                spool_free(s);
                s = open_ok(dir);
                ASSERT_EQ(append(s, st.next_seq), st.next_seq + 1);
                spool_free(s);
                scratch_clear(dir);
        }
}

TEST_MAIN(test_crc32c, test_only_durable_is_read, test_reopen_and_ledger, test_byte_limit,
          test_lock_of_a_child, test_limits_and_lock, test_newer_version, test_damage_in_the_middle,
          test_numbers_are_never_reused)
