/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk says no: fdatasync and pwritev fail on demand (linked with --wrap), a full and a read-only
 * file system.
 */
#include <sys/mount.h>
#include <sys/uio.h>

#define SCRATCH_ON_DISK
#include "spool-support.h"

#define MAX_RECORD 3000
static const struct spool_options small = { .max_bytes = 8 * SPOOL_SEGMENT_MIN,
                                            .segment_bytes = SPOOL_SEGMENT_MIN };

static unsigned syncs_to_fail, writes_to_fail, syncs;

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

ssize_t __real_pwritev(int fd, const struct iovec *iov, int n, off_t at);
ssize_t __wrap_pwritev(int fd, const struct iovec *iov, int n, off_t at);
ssize_t __wrap_pwritev(int fd, const struct iovec *iov, int n, off_t at) {
        if (writes_to_fail > 0) {
                writes_to_fail--;
                errno = EIO;
                return -1;
        }
        return __real_pwritev(fd, iov, n, at);
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

/* A job that a failure has overtaken says nothing about what was written since. */
static void test_stale_job(void) {
        struct spool_sync_job job;
        struct spool_stats st;
        struct spool *s;
        char dir[64];

        scratch_make(dir);
        ASSERT_OK(spool_open(dir, &small, &s));
        for (uint64_t n = 0; n < 5; n++)
                ASSERT_OK(append(s, n));
        ASSERT_EQ(spool_sync_begin(s, &job), 1);
        syncs_to_fail = 1;
        ASSERT_EQ(spool_sync(s), -EIO);
        for (size_t i = 0; i < job.n_fds; i++)
                (void) close(job.fds[i]);
        ASSERT_OK(spool_sync_end(s, &job, 0));
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
        writes_to_fail = 1;
        ASSERT_EQ(append(s, n), -EIO);
        ASSERT_OK(append(s, n++));
        ASSERT_OK(spool_sync(s));
        expect(s, n);
        writes_to_fail = 2;
        syncs_to_fail = 1;
        ASSERT_OK(append(s, n++) < 0 ? (n--, 0) : 0);
        ASSERT_OK(append(s, n) < 0 ? 0 : (n++, 0));
        while (append(s, n) < 0)
                ;
        n++;
        while (spool_sync(s) < 0)
                ;
        expect(s, n);
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

TEST_MAIN(test_failed_sync, test_stale_job, test_failed_write, test_forced_sync, test_full_and_read_only)
