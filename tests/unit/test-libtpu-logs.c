/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of libtpu are a run's, what of them is kept of it, and who gets that. */
#include <sys/time.h>

#include "launch-bench.h"
#include "libtpu_logs.h"

#define BEGAN 1000
#define ENDED 2000

static const struct libtpu_logs_of run = { .uid = 7,
                                           .began_real = BEGAN * USEC_PER_SEC,
                                           .ended_real = ENDED * USEC_PER_SEC };

static bool counts(const char *name, mode_t mode, uid_t uid, off_t size, time_t written) {
        const struct stat st = {
                .st_mode = mode, .st_uid = uid, .st_size = size, .st_mtim.tv_sec = written
        };
        struct libtpu_logs l = { 0 };

        libtpu_logs_consider(&l, &run, name, &st);
        for (size_t i = 0; i < ELEMENTSOF(l.newest); i++)
                if (l.newest[i].name[0])
                        return true;
        return false;
}

static void test_which_count(void) {
        const char *info = "tpu_driver.h0.u.log.INFO.20261129-101112.77";

        ASSERT_TRUE(counts(info, S_IFREG | 0644, 7, 1, 1500));
        ASSERT_TRUE(counts(info, S_IFREG | 0644, 7, 1, BEGAN) && counts(info, S_IFREG, 7, 1, ENDED + 60));
        ASSERT_TRUE(!counts("tpu_driver.INFO", S_IFREG | 0644, 7, 1, 1500)); /* glog's link */
        ASSERT_TRUE(!counts(info, S_IFLNK | 0777, 7, 1, 1500));
        ASSERT_TRUE(!counts(info, S_IFIFO | 0644, 7, 1, 1500));
        ASSERT_TRUE(!counts(info, S_IFREG | 0644, 8, 1, 1500));
        ASSERT_TRUE(!counts(info, S_IFREG | 0644, 7, 0, 1500));
        ASSERT_TRUE(!counts(info, S_IFREG | 0644, 7, 1, BEGAN - 1));
        ASSERT_TRUE(!counts(info, S_IFREG | 0644, 7, 1, ENDED + 61));
        ASSERT_TRUE(!counts(info, S_IFREG | 0644, 7, 1, -1));
}

static void test_newest_of_each(void) {
        static const struct {
                const char *name;
                time_t written;
        } files[] = { { "a.log.INFO.1", 1100 },  { "b.log.INFO.2", 1300 },  { "c.log.INFO.3", 1200 },
                      { "d.log.FATAL.4", 1900 }, { "e.log.FATAL.5", 1900 }, { "f.log.ERROR.6", 1001 } };
        struct libtpu_logs l = { 0 };

        for (size_t i = 0; i < ELEMENTSOF(files); i++)
                libtpu_logs_consider(&l, &run, files[i].name,
                                     &(struct stat){ .st_mode = S_IFREG,
                                                     .st_uid = 7,
                                                     .st_size = 9,
                                                     .st_mtim.tv_sec = files[i].written });
        ASSERT_STREQ(l.newest[LIBTPU_INFO].name, "b.log.INFO.2");
        ASSERT_STREQ(l.newest[LIBTPU_FATAL].name, "d.log.FATAL.4");
        ASSERT_STREQ(l.newest[LIBTPU_ERROR].name, "f.log.ERROR.6");
        ASSERT_STREQ(l.newest[LIBTPU_WARNING].name, "");
}

/* --- Of a run ------------------------------------------------------------------------------------------ */

/* A file of libtpu as this test's user wrote it while the run was there. */
static void log_file(struct bench *b, const char *name, const char *text) {
        struct timeval at[2] = { { .tv_sec = 1700000001 }, { .tv_sec = 1700000001 } };
        char file[128], path[512];

        (void) snprintf(file, sizeof(file), "tmp/tpu_logs/%s", name);
        scratch_write(&b->scratch, file, text);
        scratch_path(&b->scratch, file, path);
        ASSERT_TRUE(utimes(path, at) == 0);
}

static void end(struct bench *b, const char *name) {
        struct exit_record record = { .result = "exit-code",
                                      .code = "exited",
                                      .status = "1",
                                      .real = b->now.real + 5 * USEC_PER_SEC,
                                      .boot = b->now.boot + 5 * USEC_PER_SEC };
        _cleanup_close_ int exits = host_open_file(&b->host, STATE_EXITS, O_RDONLY | O_DIRECTORY);

        memcpy(record.id, b->fake.id, sizeof(record.id));
        ASSERT_OK(exit_record_write(exits, name, &record));
        runs_unit_events.gone(name, b->runs);
        turn_until_known(b, 0);
}

static int ask_kept(struct bench *b, const char *name, const char *kept) {
        Local__LinesRequest q = LOCAL__LINES_REQUEST__INIT;

        q.name = wire_text(name);
        q.kept = wire_text(kept);
        return ask(b, LOCAL__KIND__KIND_LINES_REQUEST, &q.base);
}

static void expect_kept(struct bench *b, const char *name, const char *text) {
        int fd = ask_kept(b, name, "libtpu");
        Local__LinesReply *l = (Local__LinesReply *) take(b, fd, LOCAL__KIND__KIND_LINES_REPLY,
                                                          &local__lines_reply__descriptor);

        ASSERT_STREQ(strndupa((char *) l->text.data, l->text.len), text);
        local__lines_reply__free_unpacked(l, NULL);
        (void) close(fd);
}

/* Over a restart of tpu-launchd, and until another run has the name. */
static void test_kept_at_the_end(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        log_file(&b, "tpu_driver.h0.u.log.INFO.1.9", "I one\nF two\n");
        log_file(&b, "tpu_driver.h0.u.log.FATAL.1.9", "F two");
        start(&b, "a");
        expect_error(&b, ask_kept(&b, "a", "libtpu"), ENOENT, "nothing of it was kept");
        end(&b, "a");
        for (unsigned i = 0; i < 2; i++) {
                expect_kept(&b, "a",
                            "tpu_driver.h0.u.log.FATAL.1.9, the last 5 of 5 bytes:\nF two\n"
                            "tpu_driver.h0.u.log.INFO.1.9, the last 12 of 12 bytes:\nI one\nF two\n");
                bench_down(&b);
                bench_up(&b);
        }
        expect_error(&b, ask_kept(&b, "a", "no-word"), EINVAL, "cannot be read");
        expect_error(&b, ask_kept(&b, "b", "libtpu"), ENOENT, "there is no run 'b'");
        start(&b, "a");
        expect_error(&b, ask_kept(&b, "a", "libtpu"), ENOENT, "nothing of it was kept");
}

/* Whole lines of the end of a long file; where the run says that it writes them. */
static void test_long_file_elsewhere(void) {
        _cleanup_bench_ struct bench b;
        char *env[] = { (char[]){ "TPU_LOG_DIR=/tmp/tpu_logs/x" } };
        _cleanup_free_ char *text = NULL;
        Local__LinesReply *l;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        int fd;

        ASSERT_TRUE(f != NULL);
        for (unsigned i = 0; i < 10000; i++)
                fprintf(f, "line %04u\n", i);
        ASSERT_TRUE(fclose(f) == 0);
        bench_init(&b);
        log_file(&b, "x/p.log.ERROR.1.9", text);
        log_file(&b, "p.log.FATAL.1.9", "of another folder");
        (void) close(ask_run(&b, "a", env, ELEMENTSOF(env)));
        runs_unit_events.started(b.fake.name, "done", b.runs);
        end(&b, "a");
        fd = ask_kept(&b, "a", "libtpu");
        l = (Local__LinesReply *) take(&b, fd, LOCAL__KIND__KIND_LINES_REPLY,
                                       &local__lines_reply__descriptor);
        free(text);
        text = strndup((char *) l->text.data, l->text.len);
        ASSERT_TRUE(startswith(text, "p.log.ERROR.1.9, the last 12280 of 100000 bytes:\nline 8772\n"));
        ASSERT_TRUE(endswith(text, "line 9999\n"));
        local__lines_reply__free_unpacked(l, NULL);
        (void) close(fd);
}

int main(void) {
        static void (*const tests[])(void) = { test_which_count, test_newest_of_each, test_kept_at_the_end,
                                               test_long_file_elsewhere };

        return bench_main(tests, ELEMENTSOF(tests));
}
