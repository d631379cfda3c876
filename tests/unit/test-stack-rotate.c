/* SPDX-License-Identifier: Apache-2.0 */
/* A user's own files with stacks are kept within their bytes, and nothing else is touched. */
#include <fcntl.h>
#include <sys/stat.h>

#include "scratch.h"
#include "stack_rotate.h"
#include "test.h"

#define NOW ((usec_t) 1795237200)

static char folder[128];

static const char *path_of(const char *name) {
        static char path[256];

        (void) snprintf(path, sizeof(path), "%s/%s", folder, name);
        return path;
}

static void put(const char *name, off_t size, usec_t age) {
        const struct timespec at[2] = { { .tv_sec = (time_t) (NOW - age) }, { .tv_sec = (time_t) (NOW - age) } };
        int fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL, 0644);

        ASSERT_TRUE(fd >= 0);
        ASSERT_OK(ftruncate(fd, size));
        ASSERT_OK(futimens(fd, at));
        (void) close(fd);
}

static bool is_there(const char *name) {
        struct stat st;

        return lstat(path_of(name), &st) == 0;
}

static int rotate(const struct host *h, uint64_t keep) {
        return stack_rotate(h, STACK_ROTATE_FOLDER, STACK_ROTATE_NAMES, keep, NOW * USEC_PER_SEC);
}

static void test_rotate(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;

        ASSERT_OK(host_open(s.path, &h));
        ASSERT_EQ(rotate(&h, 0), -ENOENT);
        (void) snprintf(folder, sizeof(folder), "%s/tmp", s.path);
        ASSERT_OK(mkdir(folder, 0755));
        (void) snprintf(folder, sizeof(folder), "%s/tmp/debugging", s.path);
        ASSERT_OK(mkdir(folder, 0755));
        put("stack_trace_1.txt", 1000, 90000);
        put("stack_trace_2.txt", 1000, 80000);
        put("stack_trace_3.txt", 1000, 70000);
        put("stack_trace_new.txt", 5000, 60);
        put("notes.txt", 9000, 99000);
        put("stack_trace_other.txt", 9000, 99000);
        ASSERT_OK(symlink("notes.txt", path_of("stack_trace_0.txt")));
        if (geteuid() == 0)
                ASSERT_OK(chown(path_of("stack_trace_other.txt"), 12345, 12345));
        else
                ASSERT_OK(unlink(path_of("stack_trace_other.txt")));
        ASSERT_EQ(rotate(&h, 8000), 0);
        ASSERT_EQ(rotate(&h, 6500), 2); /* the oldest first, and no more than needed */
        ASSERT_FALSE(is_there("stack_trace_1.txt") || is_there("stack_trace_2.txt"));
        ASSERT_TRUE(is_there("stack_trace_3.txt"));
        ASSERT_EQ(rotate(&h, 0), 1); /* what may be at work stays, whatever it takes */
        ASSERT_TRUE(is_there("stack_trace_new.txt") && is_there("notes.txt") && is_there("stack_trace_0.txt"));
        ASSERT_EQ(is_there("stack_trace_other.txt"), geteuid() == 0); /* somebody else's */
        ASSERT_EQ(rotate(&h, 0), 0);
}

static void test_through_no_link(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        char link_path[128];

        ASSERT_OK(host_open(s.path, &h));
        (void) snprintf(folder, sizeof(folder), "%s/tmp", s.path);
        ASSERT_OK(mkdir(folder, 0755));
        (void) snprintf(link_path, sizeof(link_path), "%s/tmp/debugging", s.path);
        (void) snprintf(folder, sizeof(folder), "%s/elsewhere", s.path);
        ASSERT_OK(mkdir(folder, 0755));
        put("stack_trace_1.txt", 1000, 90000);
        ASSERT_OK(symlink(folder, link_path));
        ASSERT_TRUE(rotate(&h, 0) < 0);
        ASSERT_TRUE(is_there("stack_trace_1.txt"));
}

TEST_MAIN(test_rotate, test_through_no_link)
