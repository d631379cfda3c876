/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durable appends beside SQLite (WAL, synchronous=FULL) at equal durability, in one run and turn by turn:
 * 50,000 records of 1 KiB with a commit per 100, then 2,000 with a commit each. Prints medians of 5: records
 * per second and their ratio; processor time of a record, which a busy machine changes little; bytes that a
 * record made the file system write (write_bytes of /proc/self/io), per byte of it. Usage: bench-spool
 * [DIRECTORY] (default: the current one; a tmpfs measures nothing).
 */
#include <fcntl.h>
#include <ftw.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <time.h>

#include "spool.h"

#define ROUNDS 5
#define RECORD 1024

enum { RATE, CPU, WRITTEN, _FIGURE_MAX };

struct meter {
        double seconds, cpu, written;
};

static double clock_now(clockid_t clock) {
        struct timespec t;

        (void) clock_gettime(clock, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static double written(void) {
        FILE *f = fopen("/proc/self/io", "re");
        unsigned long long n = 0;
        char line[128];

        while (f && fgets(line, sizeof(line), f))
                (void) sscanf(line, "write_bytes: %llu", &n);
        if (f)
                (void) fclose(f);
        return (double) n;
}

static struct meter meter_start(void) {
        return (struct meter) { clock_now(CLOCK_MONOTONIC), clock_now(CLOCK_PROCESS_CPUTIME_ID), written() };
}

static void meter_end(const struct meter *start, unsigned records, double ret[static _FIGURE_MAX]) {
        struct meter end = meter_start();

        ret[RATE] = records / (end.seconds - start->seconds);
        ret[CPU] = (end.cpu - start->cpu) * 1e6 / records;
        ret[WRITTEN] = (end.written - start->written) / records / RECORD;
}

__attribute__((noreturn)) static void die(const char *what, const char *why) {
        fprintf(stderr, "bench-spool: %s: %s\n", what, why);
        exit(1);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
        (void) st;
        (void) flag;
        (void) ftw;
        return remove(path);
}

/* The same for both: what earlier runs left to write is written before the clock starts. */
static struct meter settle(const char *dir, uint8_t *buf) {
        int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 || syncfs(fd) < 0)
                die(dir, strerror(errno));
        (void) close(fd);
        for (size_t i = 0; i < RECORD; i++)
                buf[i] = (uint8_t) (i * 7);
        return meter_start();
}

static void run_spool(const char *dir, unsigned records, unsigned per_commit,
                      double ret[static _FIGURE_MAX]) {
        const struct spool_options o = { .max_bytes = 256u << 20, .segment_bytes = 4u << 20 };
        struct spool *s = NULL;
        uint8_t buf[RECORD];
        uint64_t seq = 0;
        char path[512];
        struct meter start;
        int r;

        (void) snprintf(path, sizeof(path), "%s/bench-spool", dir);
        r = spool_open(path, &o, &s);
        if (r < 0)
                die(path, strerror(-r));
        start = settle(dir, buf);
        for (unsigned i = 0; i < records && r >= 0; i++) {
                memcpy(buf, &i, sizeof(i));
                r = spool_append(s, buf, sizeof(buf), &seq);
                if (r >= 0 && (i + 1) % per_commit == 0)
                        r = spool_sync(s);
        }
        if (r < 0)
                die(path, strerror(-r));
        meter_end(&start, records, ret);
        spool_free(s);
        (void) nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void sql(sqlite3 *db, const char *text) {
        if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
                die(text, sqlite3_errmsg(db));
}

static void run_sqlite(const char *dir, unsigned records, unsigned per_commit,
                       double ret[static _FIGURE_MAX]) {
        sqlite3_stmt *insert = NULL;
        sqlite3 *db = NULL;
        uint8_t buf[RECORD];
        char path[512], file[600];
        struct meter start;

        (void) snprintf(path, sizeof(path), "%s/bench-sqlite", dir);
        if (mkdir(path, 0700) < 0)
                die(path, strerror(errno));
        (void) snprintf(file, sizeof(file), "%s/db", path);
        if (sqlite3_open(file, &db) != SQLITE_OK)
                die(file, sqlite3_errmsg(db));
        sql(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE q (seq INTEGER PRIMARY KEY, "
                "data BLOB)");
        if (sqlite3_prepare_v2(db, "INSERT INTO q (data) VALUES (?)", -1, &insert, NULL) != SQLITE_OK)
                die(file, sqlite3_errmsg(db));
        start = settle(dir, buf);
        for (unsigned i = 0; i < records; i++) {
                memcpy(buf, &i, sizeof(i));
                if (i % per_commit == 0)
                        sql(db, "BEGIN");
                (void) sqlite3_bind_blob(insert, 1, buf, sizeof(buf), SQLITE_STATIC);
                if (sqlite3_step(insert) != SQLITE_DONE)
                        die(file, sqlite3_errmsg(db));
                (void) sqlite3_reset(insert);
                if ((i + 1) % per_commit == 0)
                        sql(db, "COMMIT");
        }
        meter_end(&start, records, ret);
        (void) sqlite3_finalize(insert);
        (void) sqlite3_close(db);
        (void) nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int compare(const void *a, const void *b) {
        const double *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

static double median(double rounds[static ROUNDS][_FIGURE_MAX], size_t figure) {
        double values[ROUNDS];

        for (size_t i = 0; i < ROUNDS; i++)
                values[i] = rounds[i][figure];
        qsort(values, ROUNDS, sizeof(*values), compare);
        return values[ROUNDS / 2];
}

static void measure(const char *dir, unsigned records, unsigned per_commit) {
        double ours[ROUNDS][_FIGURE_MAX], theirs[ROUNDS][_FIGURE_MAX];

        for (size_t i = 0; i < ROUNDS; i++) {
                run_spool(dir, records, per_commit, ours[i]);
                run_sqlite(dir, records, per_commit, theirs[i]);
        }
        printf("%7u %11u %12.0f %12.0f %8.2f %10.1f %10.1f %10.2f %10.2f\n", records, per_commit,
               median(ours, RATE), median(theirs, RATE), median(ours, RATE) / median(theirs, RATE),
               median(ours, CPU), median(theirs, CPU), median(ours, WRITTEN), median(theirs, WRITTEN));
}

int main(int argc, char *argv[]) {
        const char *dir = argc > 1 ? argv[1] : ".";

        printf("%7s %11s %12s %12s %8s %21s %21s\n%54s %10s %10s %10s %10s\n", "records", "per commit",
               "spool r/s", "SQLite r/s", "ratio", "CPU us a record", "written per byte", "", "spool",
               "SQLite", "spool", "SQLite");
        measure(dir, 50000, 100);
        measure(dir, 2000, 1);
        return 0;
}
