/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "child.h"
#include "io.h"
#include "test.h"

struct ended {
        int result, calls;
        char answer[64];
        size_t len;
        struct child *child;
};

static void on_done(int result, const char *answer, size_t len, void *userdata) {
        struct ended *e = userdata;

        e->child = child_free(e->child); /* allowed here, and the answer stands until the end */
        e->calls++;
        e->result = result;
        (void) snprintf(e->answer, sizeof(e->answer), "%s", answer);
        ASSERT_EQ(answer[len], 0);
        e->len = len;
}

static int say(int fd, const void *data) {
        return io_write_all(fd, data, strlen(data));
}
static int fail(int fd, const void *data) {
        (void) fd, (void) data;
        return -ENOSPC;
}
static int crash(int fd, const void *data) {
        (void) fd, (void) data;
        (void) raise(SIGKILL);
        return 0;
}
static int hang(int fd, const void *data) {
        (void) fd, (void) data;
        while (pause() < 0)
                ;
        return 0;
}
/* 0 when the descriptor is not there */
static int probe_fd(int fd, const void *data) {
        (void) fd;
        return fcntl(*(const int *) data, F_GETFD) < 0 ? 0 : -EEXIST;
}

static struct ended run_work(struct child_work w) {
        struct ended e = { .result = 1 };
        sd_event *loop = NULL;

        w.name = "test";
        w.done = on_done;
        w.userdata = &e;

        ASSERT_OK(sd_event_new(&loop));
        ASSERT_OK(child_start(loop, &w, &e.child));
        for (int i = 0; i < 100000 && e.calls == 0; i++)
                ASSERT_TRUE(sd_event_run(loop, 10 * USEC_PER_MSEC) >= 0);
        ASSERT_EQ(e.calls, 1);
        ASSERT_FALSE(e.child);
        sd_event_unref(loop);
        ASSERT_EQ(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left over */
        return e;
}

static struct ended run(int (*what)(int fd, const void *data), const void *data) {
        return run_work((struct child_work){ .timeout = 200 * USEC_PER_MSEC, .run = what, .data = data });
}

static struct ended run_program(const char *script, size_t max) {
        const char *const argv[] = { "sh", "-c", script, NULL };
        const struct spawn_options program = { .path = "/bin/sh", .argv = argv, .environment = environ,
                                               .error = -1 };

        return run_work((struct child_work){ .timeout = 60 * USEC_PER_SEC, .program = &program,
                                             .max = max });
}

static void test_programs(void) {
        struct ended e = run_program("echo hello", 6);

        ASSERT_EQ(e.result, 0);
        ASSERT_STREQ(e.answer, "hello\n");
        ASSERT_EQ(run_program("echo hello", 5).result, -E2BIG);
        ASSERT_EQ(run_program("head -c 2000000 /dev/zero; sleep 60", 1000000).result, -E2BIG);
        ASSERT_EQ(run_program("head -c 300000 /dev/zero", 300000).len, 300000);
        ASSERT_EQ(run_program("echo hello; exit 3", 100).result, -EIO);
        ASSERT_EQ(run_program("kill -9 $$", 100).result, -EIO);
}

static void test_answers(void) {
        struct ended e = run(say, "hello");

        ASSERT_EQ(e.result, 0);
        ASSERT_STREQ(e.answer, "hello");
        ASSERT_EQ(run(fail, NULL).result, -ENOSPC);
        ASSERT_EQ(run(crash, NULL).result, -EIO);
        ASSERT_EQ(run(hang, NULL).result, -ETIMEDOUT);
}

static void test_holds_nothing_of_ours(void) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC), low = fcntl(null, F_DUPFD_CLOEXEC, 3),
            /* null may be 0: a test runner need not give us a standard input */
            high = fcntl(null, F_DUPFD_CLOEXEC, 100);

        ASSERT_TRUE(null >= 0 && low >= 3 && high >= 100);
        ASSERT_EQ(run(probe_fd, &low).result, 0);
        ASSERT_EQ(run(probe_fd, &high).result, 0);
        (void) close(null);
        (void) close(low);
        (void) close(high);
}

static void test_free_kills(void) {
        struct ended e = { 0 };
        const struct child_work w = {
                .name = "test", .timeout = 60 * USEC_PER_SEC, .run = hang, .done = on_done, .userdata = &e
        };
        sd_event *loop = NULL;

        ASSERT_OK(sd_event_new(&loop));
        ASSERT_OK(child_start(loop, &w, &e.child));
        ASSERT_FALSE(child_free(e.child));
        ASSERT_EQ(e.calls, 0);
        ASSERT_EQ(waitpid(-1, NULL, WNOHANG), -1);
        sd_event_unref(loop);
}

/* Counted while it is there, also behind child_free(), which does not wait for it. */
static void test_counted(void) {
        unsigned there = 0;
        struct child_work w = { .name = "test", .run = hang, .done = on_done, .there = &there,
                                .timeout = 20 * USEC_PER_MSEC };
        struct ended e = { .result = 1 };
        sd_event *loop = NULL;

        w.userdata = &e;
        ASSERT_OK(sd_event_new(&loop));
        ASSERT_OK(child_start(loop, &w, &e.child));
        ASSERT_EQ(there, 1);
        while (e.calls == 0)
                ASSERT_TRUE(sd_event_run(loop, 5 * USEC_PER_SEC) >= 0);
        ASSERT_EQ(e.result, -ETIMEDOUT);
        ASSERT_EQ(there, 0);
        w.timeout = 0;
        ASSERT_OK(child_start(loop, &w, &e.child));
        e.child = child_free(e.child);
        ASSERT_EQ(there, 1);
        while (there > 0)
                ASSERT_TRUE(sd_event_run(loop, 5 * USEC_PER_SEC) >= 0);
        ASSERT_EQ(e.calls, 1);
        (void) sd_event_unref(loop);
}

TEST_MAIN(test_answers, test_programs, test_holds_nothing_of_ours, test_free_kills, test_counted)
