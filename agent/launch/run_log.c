/* SPDX-License-Identifier: Apache-2.0 */
#include "run_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "shim.h"
#include "state.h"

#define BLOCK 65536 /* holes are made of whole blocks, in every file system */

int run_log_open(const struct host *h, const char *name, uid_t uid) {
        _cleanup_close_ int dir = state_make_logs(h), fd = -1;

        if (dir < 0)
                return dir;
        (void) unlinkat(dir, name, 0); /* of the run before */
        fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        (void) fchmod(fd, 0400);
        (void) fchown(fd, uid, (gid_t) -1); /* who is not root has runs of its own only */
        return TAKE_FD(fd);
}

void run_log_remove(const struct host *h, const char *name) {
        _cleanup_close_ int dir = state_open(h, STATE_LOGS);

        if (dir >= 0)
                (void) unlinkat(dir, name, 0);
}

int run_log_trim(int fd, uint64_t size) {
        struct stat st;
        off_t end;

        if (fstat(fd, &st) < 0)
                return -errno;
        if ((uint64_t) st.st_blocks * 512 <= size || (uint64_t) st.st_size <= size)
                return 0;
        end = (st.st_size - (off_t) (size / 2)) / BLOCK * BLOCK;
        if (end <= 0)
                return 0;
        if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, end) < 0)
                return -errno;
        return 1;
}

struct forget {
        const struct host *host;
        int logs, shims;
        usec_t real;
};

static int look(const char *name, void *userdata) {
        const struct forget *f = userdata;
        struct shim_file shim;
        struct stat st;

        if (fstatat(f->logs, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
            (usec_t) st.st_mtim.tv_sec * USEC_PER_SEC >= f->real)
                return 0;
        if (shim_file_read(f->shims, name, &shim) < 0 || !shim.alive)
                (void) unlinkat(f->logs, name,
                                0); /* one that stays is found again at the next start of a run */
        return 0;
}

void run_logs_forget(const struct host *h, usec_t real) {
        _cleanup_close_ int logs = state_open(h, STATE_LOGS), shims = state_make_shims(h);
        struct forget f = { .host = h, .logs = logs, .shims = shims, .real = real };

        if (logs >= 0 && shims >= 0)
                (void) host_list(h, PATH_LAUNCHD_STATE "/" STATE_LOGS, look, &f);
}
