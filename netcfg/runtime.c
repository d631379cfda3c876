/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "durable.h"
#include "paths.h"
#include "runtime.h"

#define LOCK_STEP (5 * USEC_PER_MSEC)

static int open_top(const struct host *h) {
        int fd = host_open_file(h, PATH_NETCFG_RUNTIME, O_RDONLY | O_DIRECTORY);

        if (fd != -ENOENT)
                return fd;
        if (mkdirat(h->root_fd, &PATH_NETCFG_RUNTIME[1], 0755) < 0 && errno != EEXIST)
                return -errno;
        return host_open_file(h, PATH_NETCFG_RUNTIME, O_RDONLY | O_DIRECTORY);
}

int runtime_open(const struct host *h, const char *path) {
        static const char top_path[] = PATH_NETCFG_RUNTIME "/";
        const char *inside = startswith(path, top_path) ? path + strlen(top_path) : NULL;
        _cleanup_close_ int top = open_top(h);
        int fd;

        if (top < 0 || !inside)
                return TAKE_FD(top);
        if (mkdirat(top, inside, 0755) < 0 && errno != EEXIST)
                return -errno;
        fd = openat(top, inside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/*
 * The file belongs to whom the directory belongs to, so that the daemon can take a lock that root made first.
 * The directory is not root's: what lies there may be a second name of a file that its owner would like to have.
 */
static int open_lock(int dir_fd) {
        _cleanup_close_ int fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        struct stat dir, lock;

        if (fd < 0 || fstat(fd, &lock) < 0)
                return -errno;
        if (!S_ISREG(lock.st_mode) || lock.st_nlink != 1)
                return -EMLINK;
        if (geteuid() == 0 && lock.st_uid == 0 && fstat(dir_fd, &dir) == 0)
                (void) fchown(fd, dir.st_uid, dir.st_gid); /* root without CAP_CHOWN: it is the owner's loss,
                                                              said when he opens it */
        return TAKE_FD(fd);
}

int runtime_lock(int dir_fd, usec_t wait) {
        _cleanup_close_ int fd = open_lock(dir_fd);

        if (fd < 0)
                return fd;
        for (usec_t waited = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited += LOCK_STEP) {
                if (errno != EWOULDBLOCK)
                        return -errno;
                if (waited >= wait)
                        return -EAGAIN;
                (void) usleep((useconds_t) LOCK_STEP);
        }
        return TAKE_FD(fd);
}

static bool is_there(int dir_fd, const char *name) {
        return faccessat(dir_fd, name, F_OK, 0) == 0;
}

static int set_there(int dir_fd, const char *name, bool there) {
        if (there)
                return durable_write(dir_fd, name, "", 0, 0644);
        return unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

bool runtime_is_restored(int dir_fd) {
        return is_there(dir_fd, "restored");
}

int runtime_set_restored(int dir_fd, bool restored) {
        return set_there(dir_fd, "restored", restored);
}
