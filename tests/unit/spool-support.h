/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * For tests of the spool: a scratch directory, and records whose content follows from their sequence number.
 */
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "spool.h"
#include "test.h"

/*
 * In memory where there is such a place: tests of logic need no disk. SCRATCH_ON_DISK before the include:
 * a real one.
 */
#ifdef SCRATCH_ON_DISK
#define SCRATCH_FAST "/tmp"
#else
#define SCRATCH_FAST "/dev/shm"
#endif

static int scratch_remove(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
        (void) st;
        (void) flag;
        (void) ftw;
        return remove(path);
}

static inline void scratch_clear(const char *path) {
        (void) nftw(path, scratch_remove, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static inline void scratch_make(char buf[static 64]) {
        (void) snprintf(buf, 64, "%s/tpu-hostd-spool-XXXXXX",
                        access(SCRATCH_FAST, W_OK) == 0 ? SCRATCH_FAST : "/tmp");
        ASSERT_TRUE(mkdtemp(buf));
}

/* Fills buf with the record number n of a life: its number first, then bytes that follow from both. */
static inline size_t record_make(uint64_t life, uint64_t n, uint8_t *buf, size_t max) {
        uint64_t x = (n + 1) * 0x9e3779b97f4a7c15u ^ life * 0xbf58476d1ce4e5b9u;
        size_t len = 16 + (size_t) (x >> 40) % (max - 16);

        memcpy(buf, &life, 8);
        memcpy(buf + 8, &n, 8);
        for (size_t i = 16; i < len; i++) {
                x = x * 6364136223846793005u + 1442695040888963407u;
                buf[i] = (uint8_t) (x >> 56);
        }
        return len;
}

/* Whether data is exactly a record that record_make() makes with this max; tells which. */
static inline bool record_check(const uint8_t *data, size_t len, size_t max, uint64_t *ret_life,
                                uint64_t *ret_n) {
        static uint8_t wanted[SPOOL_RECORD_MAX];

        if (len < 16)
                return false;
        memcpy(ret_life, data, 8);
        memcpy(ret_n, data + 8, 8);
        return record_make(*ret_life, *ret_n, wanted, max) == len && memcmp(wanted, data, len) == 0;
}

/* What can be read up to seq is delivered. */
static inline void spool_ack(struct spool *s, uint64_t seq) {
        static uint8_t buf[SPOOL_RECORD_MAX];
        uint64_t n;
        size_t len;

        while (spool_read(s, 0, buf, sizeof(buf), &len, &n) > 0 && n <= seq)
                spool_settle(s, n, NULL);
}

/* Path of the youngest or oldest segment file; false: there is none. */
static inline bool scratch_segment(const char *dir, bool youngest, char ret[static 512]) {
        _cleanup_closedir_ DIR *d = opendir(dir);
        char best[64] = "";

        ASSERT_TRUE(d);
        for (const struct dirent *e; (e = readdir(d));)
                if (strlen(e->d_name) == 20 && streq(e->d_name + 16, ".seg") &&
                    (!best[0] || (strcmp(e->d_name, best) > 0) == youngest))
                        (void) snprintf(best, sizeof(best), "%.63s", e->d_name);
        (void) snprintf(ret, 512, "%s/%s", dir, best);
        return best[0] != '\0';
}
