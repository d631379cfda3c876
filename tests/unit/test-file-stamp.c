/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are written, replaced, taken away and brought back. */
#include <fcntl.h>
#include <sys/stat.h>

#include "io.h"
#include "test.h"
#include "tls_files.h"

static void write_file(const char *path, const char *text) {
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        ASSERT_TRUE(fd >= 0);
        ASSERT_OK(io_write_all(fd, text, strlen(text)));
}

static void test_changes(void) {
        char folder[] = "/tmp/test-file-stamp-XXXXXX", one[64], other[64];
        const char *const paths[] = { one, "", other };
        const struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
        struct file_stamp stamps[3] = { 0 };

        ASSERT_TRUE(mkdtemp(folder));
        (void) snprintf(one, sizeof(one), "%s/one", folder);
        (void) snprintf(other, sizeof(other), "%s/other", folder);
        ASSERT_TRUE(file_stamps_changed(paths, stamps, 3)); /* not there is news, too, the first time */
        ASSERT_FALSE(file_stamps_changed(paths, stamps, 3));
        ASSERT_EQ(stamps[0].error, ENOENT);
        write_file(one, "a");
        ASSERT_TRUE(file_stamps_changed(paths, stamps, 3));
        ASSERT_FALSE(file_stamps_changed(paths, stamps, 3));
        write_file(one, "aa");
        ASSERT_TRUE(file_stamps_changed(paths, stamps, 3));
        write_file(other, "bb");
        ASSERT_TRUE(file_stamps_changed(paths, stamps, 3));
        ASSERT_OK(rename(other, one)); /* as long as before, and an old time on it */
        ASSERT_OK(utimensat(AT_FDCWD, one, old, 0));
        ASSERT_TRUE(file_stamps_changed(paths, stamps, 3));
        ASSERT_FALSE(file_stamps_changed(paths, stamps, 3));
        ASSERT_OK(unlink(one));
        ASSERT_TRUE(file_stamps_changed(paths, stamps, 3));
        ASSERT_OK(rmdir(folder));
}

TEST_MAIN(test_changes)
