/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk says no: fdatasync, fsync and pwrite fail on demand (linked with --wrap), a full and a read-only
 * file system.
 */
#include <sys/mount.h>

#define SCRATCH_ON_DISK
#include "spool-support.h"

#define MAX_RECORD 3000
static const struct spool_options small = { .max_bytes = 8 * SPOOL_SEGMENT_MIN,
                                            .segment_bytes = SPOOL_SEGMENT_MIN };

static unsigned syncs_to_fail, writes_to_fail, syncs, directory_syncs;

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd) {
        syncs++;
        if (syncs_to_fail > 0) {
                syncs_to_fail--;
                errno = EIO;
                return -1;
        }
        return __real_fdatasync(fd);
}

/* fdatasync of a directory may leave a new name out (ext4 before 5.16): the spool must not rely on it. */
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
        struct stat st;

        if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
                directory_syncs++;
        return __real_fsync(fd);
}

ssize_t __real_pwrite(int fd, const void *data, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t len, off_t at) {
        if (writes_to_fail > 0) {
                writes_to_fail--;
                errno = EIO;
                return -1;
        }
        return __real_pwrite(fd, data, len, at);
}

static int append(struct spool *s, uint64_t n) {
        uint8_t buf[MAX_RECORD];
        uint64_t seq = 0;
        int r;

        r = spool_append(s, buf, record_make(1, n, buf, sizeof(buf)), &seq);
        if (r >= 0)
                ASSERT_EQ(seq, n + 1);
        return r;
}

/* Records 0 … n-1 are all there, once, in order, and nothing else. */
static void expect(struct spool *s, uint64_t n) {
        uint8_t buf[MAX_RECORD];
        uint64_t seq = 0, life, at;
        size_t len;

        for (uint64_t i = 0; i < n; i++) {
                ASSERT_EQ(spool_read(s, seq, buf, sizeof(buf), &len, &seq), 1);
                ASSERT_TRUE(record_check(buf, len, MAX_RECORD, &life, &at));
                ASSERT_EQ(at, i);
                ASSERT_EQ(seq, i + 1);
        }
        ASSERT_EQ(spool_read(s, seq, buf, sizeof(buf), &len, &seq), 0);
}

/* Records up to n - 1 are there, without gaps from the first one that the byte limit left. */
static void expect_tail(struct spool *s, uint64_t n) {
        uint8_t buf[MAX_RECORD];
        uint64_t seq = 0, last = 0, life, at;
        size_t len;

        while (spool_read(s, seq, buf, sizeof(buf), &len, &seq) == 1) {
                ASSERT_TRUE(last == 0 || seq == last + 1);
                ASSERT_TRUE(record_check(buf, len, MAX_RECORD, &life, &at));
                ASSERT_EQ(at, seq - 1);
                last = seq;
        }
        ASSERT_EQ(last, n);
}

/*
 * After a failed sync nothing unsynced is called durable; it is written to another file, and is durable
 * after the next sync.
 */
static void test_failed_sync(void) {
        /*
         * so many durable, then so many more that the sync fails on: within one segment, over two, none
         * before
         */
        static const uint64_t before[] = { 10, 40, 0, 0 }, more[] = { 5, 15, 5, 20 };
        struct spool_stats st;
        struct spool *s;
        char dir[64];

        for (size_t i = 0; i < ELEMENTSOF(before); i++)
                for (unsigned times = 1; times <= 3; times++) {
                        uint64_t n = 0;

                        scratch_make(dir);
                        ASSERT_OK(spool_open(dir, &small, &s));
                        for (; n < before[i]; n++)
                                ASSERT_OK(append(s, n));
                        ASSERT_OK(spool_sync(s));
                        for (; n < before[i] + more[i]; n++)
                                ASSERT_OK(append(s, n));
                        for (unsigned k = 0; k < times; k++) {
                                spool_get_stats(s, &st);
                                uint64_t synced = st.synced_seq;

                                syncs_to_fail = 1;
                                ASSERT_EQ(spool_sync(s), -EIO);
                                spool_get_stats(s, &st);
                                ASSERT_EQ(st.synced_seq, synced);
                                ASSERT_EQ(st.given_up, k + 1);
                                ASSERT_EQ(st.records, n);
                                expect(s, synced);
                                ASSERT_OK(append(s, n++));
                        }
                        ASSERT_OK(spool_sync(s));
                        expect(s, n);
                        spool_free(s);
                        ASSERT_OK(spool_open(dir, &small,
                                             &s)); /* the copies in the segments given up are not read */
                        expect(s, n);
                        spool_get_stats(s, &st);
                        ASSERT_EQ(st.damaged, 0);
                        ASSERT_EQ(append(s, n), 0);
                        spool_free(s);
                        scratch_clear(dir);
                }
}

/* A task that a failure has overtaken says nothing about what was written since. */
static void test_stale_task(void) {
        struct spool_sync_task task;
        struct spool_stats st;
        struct spool *s;
        char dir[64];

        scratch_make(dir);
        ASSERT_OK(spool_open(dir, &small, &s));
        for (uint64_t n = 0; n < 5; n++)
                ASSERT_OK(append(s, n));
        ASSERT_EQ(spool_sync_begin(s, &task), 1);
        syncs_to_fail = 1;
        ASSERT_EQ(spool_sync(s), -EIO);
        for (size_t i = 0; i < task.n_fds; i++)
                (void) close(task.fds[i]);
        ASSERT_OK(spool_sync_end(s, &task, 0));
        spool_get_stats(s, &st);
        ASSERT_EQ(st.synced_seq, 0);
        ASSERT_OK(spool_sync(s));
        expect(s, 5);
        spool_free(s);
        scratch_clear(dir);
}

static void test_failed_write(void) {
        struct spool *s;
        char dir[64];
        uint64_t n = 0;

        scratch_make(dir);
        ASSERT_OK(spool_open(dir, &small, &s));
        for (; n < 10; n++)
                ASSERT_OK(append(s, n));
        ASSERT_OK(spool_sync(s));
        for (unsigned fails = 1; fails < 4; fails++) { /* 2, 3: the header of the next segment, too */
                ASSERT_OK(append(s, n++));
                ASSERT_OK(append(s, n++));
                writes_to_fail = fails;
                ASSERT_EQ(spool_sync(s), -EIO);
                expect(s, n - 2);
                ASSERT_OK(append(s, n) < 0 ? 0 : (n++, 0));
                while (spool_sync(s) < 0)
                        ;
                expect(s, n);
        }
        for (unsigned i = 0; i < 300; i++) { /* and where one segment ends */
                writes_to_fail = i % 10 == 0;
                if (append(s, n) >= 0)
                        n++;
        }
        writes_to_fail = 0;
        while (spool_sync(s) < 0)
                ;
        spool_free(s);
        ASSERT_OK(spool_open(dir, &small, &s));
        expect_tail(s, n);
        spool_free(s);
        scratch_clear(dir);
}

/* One record as long as a segment, on a disk that takes no writes for a while. */
static void test_failed_write_of_a_whole_segment(void) {
        static uint8_t buf[SPOOL_SEGMENT_MIN - 32 - 16], back[SPOOL_SEGMENT_MIN];
        struct spool_stats st;
        struct spool *s;
        uint64_t seq = 0;
        char dir[64];
        size_t len;

        scratch_make(dir);
        ASSERT_OK(spool_open(dir, &small, &s));
        memset(buf, 7, sizeof(buf));
        ASSERT_OK(spool_append(s, buf, sizeof(buf), &seq));
        writes_to_fail = 1000;
        for (int i = 0; i < 20; i++)
                ASSERT_EQ(i % 2 ? spool_sync(s) : spool_append(s, buf, 100, &seq), -EIO);
        writes_to_fail = 0;
        ASSERT_OK(spool_sync(s));
        spool_get_stats(s, &st);
        ASSERT_EQ(st.synced_seq, 1);
        ASSERT_EQ(spool_read(s, 0, back, sizeof(back), &len, &seq), 1);
        ASSERT_EQ(len, sizeof(buf));
        ASSERT_EQ(memcmp(back, buf, len), 0);
        spool_free(s);
        scratch_clear(dir);
}

/* What is durable is read past a bad place; what is in memory only is not taken for damage. */
static void test_damage_before_unwritten(void) {
        struct spool_stats st;
        struct spool *s;
        char dir[64], path[512];
        uint8_t buf[MAX_RECORD];
        uint64_t seq = 0;
        size_t len;
        int fd;

        scratch_make(dir);
        ASSERT_OK(spool_open(dir, &small, &s));
        for (uint64_t n = 0; n < 3; n++)
                ASSERT_OK(append(s, n));
        ASSERT_OK(spool_sync(s));
        ASSERT_EQ(directory_syncs > 0, true);
        for (uint64_t n = 3; n < 6; n++)
                ASSERT_OK(append(s, n));
        ASSERT_TRUE(scratch_segment(dir, true, path));
        fd = open(path, O_WRONLY | O_CLOEXEC);
        ASSERT_TRUE(fd >= 0);
        ASSERT_EQ(pwrite(fd, "\xde\xad", 2, 32 + 18), 2); /* inside of the first */
        (void) close(fd);
        ASSERT_EQ(spool_read(s, 0, buf, sizeof(buf), &len, &seq), 1);
        ASSERT_EQ(seq, 2);
        spool_get_stats(s, &st);
        ASSERT_EQ(st.damaged, 1);
        ASSERT_EQ(st.records, 5);
        ASSERT_OK(spool_sync(s));
        for (uint64_t n = 2; n < 6; n++) {
                ASSERT_EQ(spool_read(s, n, buf, sizeof(buf), &len, &seq), 1);
                ASSERT_EQ(seq, n + 1);
        }
        spool_free(s);
        scratch_clear(dir);
}

/* Many records before any sync: memory stays bounded, because the append itself then syncs. */
static void test_forced_sync(void) {
        struct spool_stats st;
        struct spool *s;
        char dir[64];

        scratch_make(dir);
        ASSERT_OK(spool_open(dir, &small, &s));
        syncs = 0;
        for (uint64_t n = 0; n < 200; n++) {
                uint8_t buf[MAX_RECORD];
                size_t unsynced = 0;

                ASSERT_OK(append(s, n));
                spool_get_stats(s, &st);
                for (uint64_t seq = st.synced_seq + 1; seq < st.next_seq; seq++)
                        unsynced += record_make(1, seq - 1, buf, sizeof(buf));
                ASSERT_TRUE(unsynced <= SPOOL_SEGMENT_MIN / 2);
        }
        ASSERT_TRUE(syncs > 0);
        spool_free(s);
        scratch_clear(dir);
}

static bool make_tmpfs(const char *dir) {
        if (mount("tpu-hostd-test", dir, "tmpfs", 0, "size=256k") >= 0)
                return true;
        printf("SKIP full and read-only file system: mounting a tmpfs is not permitted here (%s)\n",
               strerror(errno));
        return false;
}

static void test_full_and_read_only(void) {
        struct spool_options o = { .max_bytes = 64 * SPOOL_SEGMENT_MIN, .segment_bytes = SPOOL_SEGMENT_MIN };
        struct spool_stats st;
        struct spool *s;
        char mnt[64], dir[80];
        uint64_t n = 0, refused = 0;

        scratch_make(mnt);
        if (!make_tmpfs(mnt)) {
                scratch_clear(mnt);
                return;
        }
        (void) snprintf(dir, sizeof(dir), "%s/spool", mnt);
        ASSERT_OK(spool_open(dir, &o, &s));
        for (int i = 0; i < 500; i++) {
                int r = append(s, n);

                ASSERT_TRUE(r == 0 || r == -ENOSPC);
                n += r == 0;
                refused += r != 0;
        }
        ASSERT_TRUE(n > 50 && refused > 50);
        ASSERT_OK(spool_sync(s));
        expect(s, n);
        ASSERT_EQ(append(s, n), -ENOSPC);
        spool_ack(s, n); /* delivery makes room again */
        spool_get_stats(s, &st);
        ASSERT_EQ(st.records, 0);
        ASSERT_OK(append(s, n));
        ASSERT_OK(spool_sync(s));
        spool_free(s);
        ASSERT_OK(mount(NULL, mnt, NULL, MS_REMOUNT | MS_RDONLY, NULL));
        ASSERT_TRUE(spool_open(dir, &o, &s) < 0);
        ASSERT_OK(mount(NULL, mnt, NULL, MS_REMOUNT, "size=256k"));
        ASSERT_OK(spool_open(dir, &o, &s));
        spool_get_stats(s, &st);
        ASSERT_TRUE(st.records >= 1);
        ASSERT_EQ(st.next_seq, n + 2);
        spool_free(s);
        ASSERT_OK(umount(mnt));
        scratch_clear(mnt);
}

TEST_MAIN(test_failed_sync, test_stale_task, test_failed_write, test_failed_write_of_a_whole_segment,
          test_damage_before_unwritten, test_forced_sync, test_full_and_read_only)
