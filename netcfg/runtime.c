/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "io.h"
#include "log.h"
#include "paths.h"

#define ORIGINALS "originals"

static const struct state_format format = {
        .what = "originals", .version = 3, .max = ORIGINALS_MAX * (size_t) 256, .options = { .mode = 0644 }
};

#define LOCK_STEP (5 * USEC_PER_MSEC)

int runtime_open_directory(const struct host *h, const char *path, bool make) {
        int fd = host_open_file(h, path, O_RDONLY | O_DIRECTORY);

        if (fd != -ENOENT || !make)
                return fd;
        if (mkdirat(h->root_fd, path + 1, 0755) < 0 && errno != EEXIST)
                return -errno;
        return host_open_file(h, path, O_RDONLY | O_DIRECTORY);
}

int runtime_open(const struct host *h, const char *path) {
        static const char top_path[] = PATH_NETCFG_RUNTIME "/";
        const char *inside = startswith(path, top_path) ? path + strlen(top_path) : NULL;
        _cleanup_close_ int top = runtime_open_directory(h, PATH_NETCFG_RUNTIME, true);
        int fd;

        if (top < 0 || !inside)
                return TAKE_FD(top);
        if (mkdirat(top, inside, 0755) < 0 && errno != EEXIST)
                return -errno;
        fd = openat(top, inside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/*
 * The file belongs to whom the directory belongs to, so that the daemon can take a lock that root made
 * first. The directory is not root's: what lies there may be a second name of a file that its owner would
 * like to have.
 */
static int open_lock(int dir_fd) {
        _cleanup_close_ int fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        struct stat dir, lock;

        if (fd < 0 || fstat(fd, &lock) < 0)
                return -errno;
        if (!S_ISREG(lock.st_mode) || lock.st_nlink != 1)
                return -EMLINK;
        if (geteuid() == 0 && lock.st_uid == 0 && fstat(dir_fd, &dir) == 0)
                /* root without CAP_CHOWN: it is the owner's loss, said when he opens it */
                (void) fchown(fd, dir.st_uid, dir.st_gid);
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

static int remove_file(int dir_fd, const char *name) {
        return unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

bool runtime_is_restored(int dir_fd) {
        return faccessat(dir_fd, "restored", F_OK, 0) == 0;
}

int runtime_set_restored(int dir_fd, bool restored) {
        return restored ? durable_write(dir_fd, "restored", "", 0, 0644) : remove_file(dir_fd, "restored");
}

int runtime_load_originals(int dir_fd, const char *boot_id, struct originals *ret,
                           char why[static STATE_FILE_WHY_MAX]) {
        char aside[STATE_FILE_ASIDE_MAX];
        _cleanup_free_ char *text = NULL;
        size_t len;
        int r = state_file_read(dir_fd, ORIGINALS, &format, &text, &len, why);

        if (r == 0) {
                (void) snprintf(why, STATE_FILE_WHY_MAX, "it holds what tpu-netcfg does not write");
                r = originals_parse(text, len, boot_id, ret);
        }
        if (r == -EPROTONOSUPPORT)
                log_warning("the original values of this boot were kept by another version of tpu-netcfg, "
                            "and are set aside as %s, in plain text: --restore does not bring them back",
                            state_file_set_aside(dir_fd, ORIGINALS, r, aside));
        if (r == -ENOENT || r == -EPROTONOSUPPORT) {
                *ret = ORIGINALS_NULL;
                return 0;
        }
        return r;
}

int runtime_save_originals(int dir_fd, const char *boot_id, const struct originals *o) {
        _cleanup_free_ char *text = NULL;
        size_t len;
        int r = originals_format(o, boot_id, &text, &len);

        return r < 0 ? r : state_file_write(dir_fd, ORIGINALS, &format, text, len);
}

int runtime_forget_originals(int dir_fd) {
        return remove_file(dir_fd, ORIGINALS);
}

/* --- The order to observe --------------------------------------------------------------------------- */

#define OBSERVE "observe"

static const struct state_format observe_state = {
        .what = OBSERVE, .version = 1, .max = OBSERVE_TEXT_MAX - 1, .options = { .mode = 0644 }
};

/*
 * 0: there is none; 1: there is one, or something that is none (as an order without an end); -errno: nobody
 * knows, ret likewise.
 */
static int load_one(int dir_fd, const char *directory, struct observe *ret) {
        char why[STATE_FILE_WHY_MAX];
        _cleanup_free_ char *text = NULL;
        size_t len = 0;
        int unread = state_file_read(dir_fd, OBSERVE, &observe_state, &text, &len, why), r = unread;

        if (r == -ENOENT)
                return 0;
        *ret = (struct observe) { .ordered = true };
        if (r == 0) {
                (void) snprintf(why, sizeof(why), "it holds what tpu-netcfg does not write");
                r = observe_parse(text, len, ret);
        }
        if (r < 0)
                (void) log_warning_errno(r,
                                         "%s/" OBSERVE " cannot be read: %s; a person may have ordered to "
                                         "observe, so nothing is changed for an hour, or until tpu-hostd "
                                         "says what stands", directory, why);
        return unread < 0 && unread != -EBADMSG && unread != -EPROTONOSUPPORT ? unread : 1;
}

static int save_one(int dir_fd, const struct observe *o) {
        char text[OBSERVE_TEXT_MAX];

        if (o->ordered)
                return state_file_write(dir_fd, OBSERVE, &observe_state, text, observe_format(o, text));
        if (unlinkat(dir_fd, OBSERVE, 0) < 0)
                return errno == ENOENT ? 0 : -errno;
        return fsync(dir_fd) < 0 ? -errno : 0; /* else the order may be back after a power cut */
}

int observe_file_save(const struct host *h, int runtime_fd, const struct observe *o) {
        /* systemd makes it (StateDirectory=); who runs us by hand as root has none yet. */
        _cleanup_close_ int state = runtime_open_directory(h, PATH_NETCFG_STATE, o->ordered);
        int r = state == -ENOENT ? 0 : state < 0 ? state : save_one(state, o);

        if (r < 0)
                (void) log_warning_errno(
                        r, PATH_NETCFG_STATE "/" OBSERVE ": %m; the next boot will not know that %s",
                        o->ordered ? "observing was ordered" : "observing has ended");
        return save_one(runtime_fd, o);
}

void observe_file_load(const struct host *h, int runtime_fd, const char *boot_id, struct observe *ret) {
        _cleanup_close_ int state = runtime_open_directory(h, PATH_NETCFG_STATE, false);
        struct observe o = OBSERVE_NULL;
        int r = state < 0 ? 0 : load_one(state, PATH_NETCFG_STATE, &o);

        if (r == 0)
                r = load_one(runtime_fd, PATH_NETCFG_RUNTIME, &o);
        /* Adopted, it is kept, else the next start takes it over again; but what was not read is nobody's
         * order. */
        if (observe_adopt(&o, boot_id, host_now(h), host_now_real(h)) && r >= 0)
                (void) observe_file_save(h, runtime_fd, &o);
        *ret = o;
}
