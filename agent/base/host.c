/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <sys/syscall.h> /* __NR_openat2 comes from the kernel: Debian 11's C library has no SYS_openat2 */

#include "host.h"
#include "io.h"

#define OPEN_TRIES_MAX 1000 /* a storm of renames makes some dozens fail in a row */

int host_open(const char *root, struct host *ret) {
        struct host h = { .root_fd = -1, .clock = clock_system };

        h.real_root = !root || streq(root, "/");
        h.root = h.real_root ? NULL : root;
        h.root_fd = open(h.real_root ? "/" : root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (h.root_fd < 0)
                return -errno;
        *ret = h;
        return 0;
}

void host_close(struct host *h) {
        h->root_fd = close_fd(h->root_fd);
}

int host_open_file(const struct host *h, const char *path, int flags) {
        /* O_NONBLOCK: a fifo planted in the tree must not hang us. */
        const int all = flags | (flags & O_PATH ? O_CLOEXEC : O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct open_how how = {.flags = (unsigned) all, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
        long fd;

        if (path[0] != '/')
                return -EINVAL;
        /* "/" needs no confinement, and systemd's RestrictSUIDSGID= answers ENOSYS to every openat2(): its
         * filter cannot see the mode. */
        if (h->real_root)
                fd = open(path, all);
        else {
                unsigned tries = 0;

                do /* EAGAIN: something was renamed or mounted, anywhere, while ".." was resolved */
                        fd = syscall(__NR_openat2, h->root_fd, path, &how, sizeof(how));
                while (fd < 0 && errno == EAGAIN && ++tries < OPEN_TRIES_MAX);
        }
        return fd < 0 ? -errno : (int) fd;
}

/* One piece, as most of what is read here comes in, or as many as it takes. */
static ssize_t read_whole(int fd, char *buf, size_t size) {
        ssize_t n = read(fd, buf, size), more;

        if (n < 0 && errno == EINTR)
                return io_read_up_to(fd, buf, size);
        if (n < 0)
                return -errno;
        if (io_was_last((size_t) n, size))
                return n;
        more = io_read_up_to(fd, buf + n, size - (size_t) n);
        return more < 0 ? more : n + more;
}

int host_read_file(int fd, char *buf, size_t size, size_t *ret_len) {
        ssize_t n;

        n = read_whole(fd, buf, size);
        if (n < 0)
                return (int) n;
        if ((size_t) n == size)
                return -E2BIG;
        if (memchr(buf, '\0', (size_t) n))
                return -EBADMSG;
        while (n > 0 && strchr(" \t\r\n", buf[n - 1]))
                n--;
        buf[n] = '\0';
        if (ret_len)
                *ret_len = (size_t) n;
        return 0;
}

int host_read(const struct host *h, const char *path, char *buf, size_t size, size_t *ret_len) {
        _cleanup_close_ int fd = host_open_file(h, path, O_RDONLY);

        return fd < 0 ? fd : host_read_file(fd, buf, size, ret_len);
}

int host_open_stream(const struct host *h, const char *path, FILE **ret) {
        int fd = host_open_file(h, path, O_RDONLY);

        if (fd < 0)
                return fd;
        *ret = fdopen(fd, "r");
        if (!*ret)
                (void) close_fd(fd);
        return *ret ? 0 : -ENOMEM;
}

bool host_user_name(const struct host *h, uid_t uid, char *buf, size_t size) {
        _cleanup_fclose_ FILE *f = NULL;
        const struct passwd *p;

        if (host_open_stream(h, "/etc/passwd", &f) < 0)
                return false;
        while ((p = fgetpwent(f)))
                if (p->pw_uid == uid) {
                        (void) snprintf(buf, size, "%s", p->pw_name);
                        return true;
                }
        return false;
}

int host_read_u64(const struct host *h, const char *path, uint64_t *ret) {
        char buf[64], *end;
        unsigned long long v;
        int base, r;

        r = host_read(h, path, buf, sizeof(buf), NULL);
        if (r < 0)
                return r;
        if (buf[0] < '0' || buf[0] > '9') /* strtoull would take signs and blanks */
                return -EBADMSG;
        base = startswith(buf, "0x") ? 16 : 10;
        errno = 0;
        v = strtoull(buf, &end, base);
        if (errno != 0)
                return -errno;
        if (*end)
                return -EBADMSG;
        *ret = v;
        return 0;
}

int host_write(const struct host *h, const char *path, const char *text) {
        _cleanup_close_ int fd = host_open_file(h, path, O_WRONLY);
        size_t len = strlen(text);
        ssize_t n;

        if (fd < 0)
                return fd;
        n = write(fd, text, len);
        if (n < 0)
                return -errno;
        return (size_t) n == len ? 0 : -EIO;
}

int host_read_link(const struct host *h, const char *path, char *buf, size_t size) {
        _cleanup_close_ int fd = host_open_file(h, path, O_PATH | O_NOFOLLOW);
        ssize_t n;

        if (fd < 0)
                return fd;
        n = readlinkat(fd, "", buf, size);
        if (n < 0)
                /* an empty path on what is no symlink reads ENOENT */
                return errno == ENOENT ? -EINVAL : -errno;
        if ((size_t) n >= size)
                return -E2BIG;
        buf[n] = '\0';
        return 0;
}

int host_link_name(const struct host *h, const char *path, char *buf, size_t size) {
        char target[4096];
        const char *name;
        int r;

        r = host_read_link(h, path, target, sizeof(target));
        if (r < 0)
                return r;
        name = strrchr(target, '/');
        name = name ? name + 1 : target;
        if (strlen(name) >= size)
                return -E2BIG;
        memcpy(buf, name, strlen(name) + 1);
        return 0;
}

static int compare_names(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

struct name_list {
        char *names[HOST_LIST_MAX];
        size_t n;
};

static void name_list_free(struct name_list **l) {
        if (!*l)
                return;
        for (size_t i = 0; i < (*l)->n; i++)
                free((*l)->names[i]);
        free(*l);
}

static int read_names(DIR *d, struct name_list *l) {
        for (;;) {
                struct dirent *e;

                errno = 0;
                e = readdir(d);
                if (!e)
                        return errno ? -errno : 0;
                if (streq(e->d_name, ".") || streq(e->d_name, ".."))
                        continue;
                if (l->n == HOST_LIST_MAX)
                        return -E2BIG;
                l->names[l->n] = strdup(e->d_name);
                if (!l->names[l->n])
                        return -ENOMEM;
                l->n++;
        }
}

int host_list(const struct host *h, const char *dir, int (*visit)(const char *name, void *userdata),
              void *userdata) {
        _cleanup_(name_list_free) struct name_list *l = calloc(1, sizeof(*l));
        _cleanup_closedir_ DIR *d = NULL;
        int r;

        if (!l)
                return -ENOMEM;
        r = io_directory(host_open_file(h, dir, O_RDONLY | O_DIRECTORY), &d);
        if (r == 0)
                r = read_names(d, l);
        if (r < 0)
                return r;
        qsort(l->names, l->n, sizeof(l->names[0]), compare_names);
        for (size_t i = 0; i < l->n; i++) {
                r = visit(l->names[i], userdata);
                if (r != 0)
                        return r;
        }
        return 0;
}

int host_boot_id(const struct host *h, char buf[static BOOT_ID_MAX]) {
        return host_read(h, "/proc/sys/kernel/random/boot_id", buf, BOOT_ID_MAX, NULL);
}

int host_name(const struct host *h, char buf[static HOST_NAME_SIZE]) {
        return host_read(h, "/proc/sys/kernel/hostname", buf, HOST_NAME_SIZE, NULL);
}

usec_t host_now(const struct host *h) {
        return clock_boot(&h->clock);
}

usec_t host_now_real(const struct host *h) {
        return clock_real(&h->clock);
}
