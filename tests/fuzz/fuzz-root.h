/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A recorded root of the fuzz target's own, for what is read through the host seam; removed when it ends. In
 * memory: a file system on a disk flushes a file that is truncated and written anew. */
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "host.h"
#include "log.h"

static char fuzz_root[] = "/dev/shm/tpu-fuzz-XXXXXX";

static int fuzz_root_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) st, (void) type, (void) ftw;
        return remove(path);
}

static void fuzz_root_remove(void) {
        (void) nftw(fuzz_root, fuzz_root_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The first time it makes the root with these folders (NULL-terminated, parents first). What our readers say
 * of bad content is not printed. */
static inline void fuzz_root_open(const char *const *folders, struct host *ret) {
        static bool made;

        if (!made) {
                if (!mkdtemp(fuzz_root) || atexit(fuzz_root_remove) != 0)
                        abort();
                log_set_level(-1);
        }
        if (host_open(fuzz_root, ret) < 0)
                abort();
        for (; !made && *folders; folders++)
                if (mkdirat(ret->root_fd, *folders, 0755) < 0)
                        abort();
        made = true;
}

static inline void fuzz_root_write(const struct host *h, const char *path, const void *data, size_t len) {
        _cleanup_close_ int fd = openat(h->root_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        if (fd < 0 || write(fd, data, len) != (ssize_t) len)
                abort();
}

/* The next part of the input, up to a NUL byte or its end. */
static inline size_t fuzz_part(const uint8_t **data, size_t *size, const uint8_t **ret) {
        const uint8_t *nul = *size > 0 ? memchr(*data, '\0', *size) : NULL;
        size_t len = nul ? (size_t) (nul - *data) : *size, taken = nul ? len + 1 : len;

        *ret = *data;
        *data += taken;
        *size -= taken;
        return len;
}
