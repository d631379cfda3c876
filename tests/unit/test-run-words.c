/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of libtpu are a run's, and its core; what of them is kept of it, and who gets that. */
#include <sys/time.h>

#include "core_find.h"
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

static void end_as(struct bench *b, const char *name, struct exit_record *record) {
        _cleanup_close_ int exits = host_open_file(&b->host, STATE_EXITS, O_RDONLY | O_DIRECTORY);

        record->real = b->now.real + 5 * USEC_PER_SEC;
        record->boot = b->now.boot + 5 * USEC_PER_SEC;
        memcpy(record->id, b->fake.id, sizeof(record->id));
        ASSERT_OK(exit_record_write(exits, name, record));
        runs_unit_events.gone(name, b->runs);
        turn_until_known(b, 0);
}

static void end(struct bench *b, const char *name) {
        struct exit_record record = { .result = "exit-code", .code = "exited", .status = "1" };

        end_as(b, name, &record);
}

static int ask_kept(struct bench *b, const char *name, const char *kept) {
        Local__LinesRequest q = LOCAL__LINES_REQUEST__INIT;

        q.name = wire_text(name);
        q.kept = wire_text(kept);
        return ask(b, LOCAL__KIND__KIND_LINES_REQUEST, &q.base);
}

static void expect_kept_as(struct bench *b, const char *name, const char *kept, const char *text) {
        int fd = ask_kept(b, name, kept);
        Local__LinesReply *l = (Local__LinesReply *) take(b, fd, LOCAL__KIND__KIND_LINES_REPLY,
                                                          &local__lines_reply__descriptor);

        ASSERT_STREQ(strndupa((char *) l->text.data, l->text.len), text);
        local__lines_reply__free_unpacked(l, NULL);
        (void) close(fd);
}

static void expect_kept(struct bench *b, const char *name, const char *text) {
        expect_kept_as(b, name, "libtpu", text);
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

/* --- Its core ------------------------------------------------------------------------------------------ */

static void place(const char *pattern, const char *folder, const char *name) {
        struct core_wanted w = { .folder = "/srv/run", .uid = 7, .pid = 99 };
        char got[CORE_PATH_MAX], like[CORE_PATH_MAX];

        (void) snprintf(w.pattern, sizeof(w.pattern), "%s", pattern);
        ASSERT_EQ(core_place(&w, got, like), folder ? 0 : -ENOTSUP);
        if (!folder)
                return;
        ASSERT_STREQ(got, folder);
        ASSERT_STREQ(like, name);
}

static void test_where_cores_are(void) {
        place("core", "/srv/run", "core");
        place("/var/cores/core.%e.%p.%u%%", "/var/cores", "core.*.99.7%");
        place("sub/c[%P]*", "/srv/run/sub", "c\\[99]\\*");
        place("core.%", "/srv/run", "core.");
        place("/cores/%u/core", NULL, NULL);
        place("|/usr/share/apport/apport %p", NULL, NULL);
        place("|/lib/systemd/systemd-coredump %P %u", "/var/lib/systemd/coredump", "core.*.7.*.99.*");
}

static void tool(struct bench *b) {
        scratch_write(&b->scratch, "tool", "#!/bin/sh\necho stacks of ${2##*/} as $4\n");
        ASSERT_TRUE(chmod(b->tool, 0755) == 0);
}

static void crash(struct bench *b, const char *pattern, const char *file) {
        struct exit_record record = { .result = "core-dump", .code = "dumped", .status = "ABRT" };

        tool(b);
        scratch_write(&b->scratch, "proc/sys/kernel/core_pattern", pattern);
        start(b, "a");
        runs_unit_events.running("a", 99, "/tpu-run-a.slice/tpu-run-a.service", b->runs);
        if (file)
                scratch_write(&b->scratch, file, "core");
        end_as(b, "a", &record);
}

/* tpu-stack reads it as the run's user; what is packed is named. */
static void test_core_of_a_crash(void) {
        _cleanup_bench_ struct bench b;

        bench_init(&b);
        crash(&b, "/cores/core.%p\n", "cores/core.99");
        expect_kept_as(&b, "a", "core", "stacks of core.99 as 0\n");
        crash(&b, "/cores/x.%p\n", NULL);
        expect_error(&b, ask_kept(&b, "a", "core"), ENOENT, "nothing of it was kept");
        crash(&b, "|/lib/systemd/systemd-coredump %P", "var/lib/systemd/coredump/core.p.0.ab.99.17.zst");
        expect_kept_as(&b, "a", "core",
                       "/var/lib/systemd/coredump/core.p.0.ab.99.17.zst is compressed, and not read: unpack "
                       "it, then tpu-stack --core\n");
}

int main(void) {
        static void (*const tests[])(void) = { test_which_count, test_newest_of_each, test_kept_at_the_end,
                                               test_long_file_elsewhere, test_where_cores_are,
                                               test_core_of_a_crash };

        return bench_main(tests, ELEMENTSOF(tests));
}
