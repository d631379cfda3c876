/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "file_stamp.h"

/* Every byte of *ret is set: stamps are compared whole. path is "" for "no file". */
static void file_stamp_take(const char *path, struct file_stamp *ret) {
        struct stat st;

        memset(ret, 0, sizeof(*ret));
        if (!*path)
                return;
        if (stat(path, &st) < 0) {
                ret->error = errno;
                return;
        }
        ret->mtime_sec = st.st_mtim.tv_sec;
        ret->mtime_nsec = st.st_mtim.tv_nsec;
        ret->ctime_sec = st.st_ctim.tv_sec;
        ret->ctime_nsec = st.st_ctim.tv_nsec;
        ret->inode = st.st_ino;
        ret->size = (uint64_t) st.st_size;
}

bool file_stamps_changed(const char *const paths[], struct file_stamp stamps[], size_t n) {
        bool changed = false;

        for (size_t i = 0; i < n; i++) {
                struct file_stamp now;

                file_stamp_take(paths[i], &now);
                if (memcmp(&now, &stamps[i], sizeof(now)) == 0)
                        continue;
                stamps[i] = now;
                changed = true;
        }
        return changed;
}
