/* SPDX-License-Identifier: Apache-2.0 */
#include "descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "grow.h"
#include "host_stat.h"

#define INFO_MAX                                                                                            \
        (64u * 1024) /* of an fdinfo that is kept: an epoll's has a line for each that it watches           \
                      */

/* "pipe:[4711]" */
static bool link_inode(const char *link, const char *prefix, uint64_t *ret) {
        char *end;

        if (!startswith(link, prefix))
                return false;
        *ret = strtoull(link + strlen(prefix), &end, 10);
        return streq(end, "]");
}

static void kind_of_link(struct descriptor *d) {
        static const struct {
                const char *link;
                enum descriptor_kind kind;
        } anonymous[] = {
                { "anon_inode:[eventfd]", DESCRIPTOR_EVENTFD },
                { "anon_inode:[eventpoll]", DESCRIPTOR_EPOLL },
                { "anon_inode:[timerfd]", DESCRIPTOR_TIMER },
                { "anon_inode:[pidfd]", DESCRIPTOR_PIDFD },
                { "anon_inode:[io_uring]", DESCRIPTOR_IO_URING },
        };

        if (link_inode(d->link, "socket:[", &d->number))
                d->kind = DESCRIPTOR_SOCKET;
        else if (link_inode(d->link, "pipe:[", &d->number))
                d->kind = DESCRIPTOR_PIPE;
        else if (startswith(d->link, "/dev/") && !startswith(d->link, "/dev/shm/"))
                d->kind = DESCRIPTOR_DEVICE;
        else if (d->link[0] == '/')
                d->kind = DESCRIPTOR_FILE;
        for (size_t i = 0; i < ELEMENTSOF(anonymous); i++)
                if (streq(d->link, anonymous[i].link))
                        d->kind = anonymous[i].kind;
}

int descriptor_link(const struct process *p, uint32_t fd, struct descriptor *ret) {
        struct descriptor d = { .fd = fd };
        char path[32];
        ssize_t n;

        (void) snprintf(path, sizeof(path), "fd/%" PRIu32, fd);
        n = readlinkat(p->dir_fd, path, d.link, sizeof(d.link) - 1);
        if (n < 0)
                return errno == ENOENT ? -EBADF : -errno;
        d.link[n] = '\0';
        kind_of_link(&d);
        *ret = d;
        return 0;
}

/* --- fdinfo ------------------------------------------------------------------------------------------- */

/* The number behind a key of fdinfo ("ino:\t7"). */
static bool info_number(const char *info, const char *key, int base, uint64_t *ret) {
        for (const char *at = info; at; at = strchr(at, '\n')) {
                at += *at == '\n';
                if (startswith(at, key)) {
                        *ret = strtoull(at + strlen(key), NULL, base);
                        return true;
                }
        }
        return false;
}

/*
 * What the path alone does not say: whether it is a FIFO or a device. A local file system is asked for what
 * it has in memory (AT_STATX_DONT_SYNC), one that somebody answers for is not asked.
 */
static void look_at_file(const struct process *p, const struct mount *m, struct descriptor *d) {
        char path[32];
        struct statx st;

        if (!m || m->remote)
                return;
        (void) snprintf(path, sizeof(path), "fd/%" PRIu32, d->fd);
        if (statx(p->dir_fd, path, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &st) < 0)
                return;
        d->number = st.stx_ino;
        d->space = (uint64_t) st.stx_dev_major << 20 | st.stx_dev_minor;
        if (S_ISFIFO(st.stx_mode))
                d->kind = DESCRIPTOR_PIPE;
        else if (S_ISCHR(st.stx_mode))
                d->kind = DESCRIPTOR_DEVICE;
        else
                d->kind = DESCRIPTOR_FILE;
}

int descriptor_read(const struct process *p, const struct mounts *m, uint32_t fd, struct descriptor *ret) {
        char path[32], info[4096];
        uint64_t number = 0;
        int r = descriptor_link(p, fd, ret);

        if (r < 0)
                return r;
        (void) snprintf(path, sizeof(path), "fdinfo/%" PRIu32, fd);
        r = process_read(p, path, info, sizeof(info), NULL);
        if (r < 0)
                return 0; /* the link says enough */
        if (info_number(info, "flags:", 8, &number)) {
                ret->reads = (number & O_ACCMODE) != O_WRONLY;
                ret->writes = (number & O_ACCMODE) != O_RDONLY;
        }
        if (info_number(info, "mnt_id:", 10, &number))
                ret->mount = (uint32_t) number;
        if (ret->kind == DESCRIPTOR_EVENTFD)
                (void) info_number(info, "eventfd-id:", 10, &ret->number);
        else if (ret->kind == DESCRIPTOR_PIDFD)
                (void) info_number(info, "Pid:", 10, &ret->number);
        else if (ret->kind == DESCRIPTOR_FILE || ret->kind == DESCRIPTOR_DEVICE)
                look_at_file(p, mounts_find(m, ret->mount), ret);
        return 0;
}

/* "tfd:        5 events:       19 data: …" */
int descriptor_epoll_visit(const struct process *p, uint32_t fd,
                           int (*visit)(uint32_t fd, uint32_t events, void *userdata), void *userdata) {
        _cleanup_free_ char *info = malloc(INFO_MAX);
        char path[32];
        int r;

        if (!info)
                return -ENOMEM;
        (void) snprintf(path, sizeof(path), "fdinfo/%" PRIu32, fd);
        r = process_read(p, path, info, INFO_MAX, NULL);
        for (const char *at = info; r == 0 && (at = strstr(at, "tfd:")); at += 4) {
                char *end;
                unsigned long target = strtoul(at + 4, &end, 10);
                const char *events = strstr(end, "events:");

                if (!events || target > INT32_MAX)
                        break;
                r = visit((uint32_t) target, (uint32_t) strtoul(events + strlen("events:"), NULL, 16),
                          userdata);
        }
        return r;
}

int descriptors_visit(const struct process *p, int (*visit)(uint32_t fd, void *userdata), void *userdata) {
        _cleanup_closedir_ DIR *d = NULL;
        int r = process_open_directory(p, "fd", &d);

        if (r < 0)
                return r;
        for (size_t n = 0; r == 0;) {
                const struct dirent *e = readdir(d);

                if (!e)
                        break;
                if (e->d_name[0] < '0' || e->d_name[0] > '9')
                        continue;
                if (n++ == DESCRIPTORS_MAX)
                        return -E2BIG;
                r = visit((uint32_t) strtoul(e->d_name, NULL, 10), userdata);
        }
        return r;
}

/* --- The mounts of a process ------------------------------------------------------------------------ */

/* File systems behind which somebody else answers (filesystems(5)). */
static bool is_remote(const char *type) {
        static const char *const types[] = { "fuse", "nfs",  "9p",  "cifs",   "smb",  "ceph",    "lustre",
                                             "gfs",  "ocfs", "afs", "beegfs", "gpfs", "virtiofs" };

        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (startswith(type, types[i]))
                        return true;
        return false;
}

static int add_mount(struct mounts *m, const char *line) {
        struct mount_entry e;
        struct mount *to;
        int r;

        if (!mountinfo_parse(line, &e))
                return 0;
        r = grow(&m->items, &m->size, m->n + 1, sizeof(*m->items));
        if (r < 0)
                return r;
        to = &m->items[m->n++];
        *to = (struct mount){ .id = (uint32_t) strtoul(line, NULL, 10),
                              .device = e.device,
                              .point = (unsigned) strlen(e.type) + 1,
                              .remote = is_remote(e.type) };
        (void) snprintf(to->words, sizeof(to->words), "%s %s", e.type, e.point);
        return 0;
}

int mounts_read(const struct process *p, struct mounts *ret) {
        int fd = openat(p->dir_fd, "mountinfo", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        _cleanup_fclose_ FILE *f = fd >= 0 ? fdopen(fd, "re") : NULL;
        char line[4096];
        int r = 0;

        if (!f) {
                r = fd < 0 ? -errno : -ENOMEM;
                (void) close_fd(fd);
                return r;
        }
        while (r == 0 && ret->n < MOUNTS_MAX && fgets(line, sizeof(line), f))
                if (strchr(line, '\n'))
                        r = add_mount(ret, line);
        return r;
}

void mounts_clear(struct mounts *m) {
        free(m->items);
        *m = (struct mounts){ 0 };
}

const struct mount *mounts_find(const struct mounts *m, uint32_t id) {
        for (size_t i = 0; m && i < m->n && id != 0; i++)
                if (m->items[i].id == id)
                        return &m->items[i];
        return NULL;
}

/* Later ones lie over earlier ones. */
const struct mount *mounts_of_path(const struct mounts *m, const char *path) {
        const struct mount *best = NULL;
        size_t longest = 0;

        for (size_t i = 0; i < m->n; i++) {
                const char *point = m->items[i].words + m->items[i].point;
                size_t n = streq(point, "/") ? 0 : strlen(point);

                if (strncmp(path, point, n) == 0 && (path[n] == '/' || path[n] == '\0') && n >= longest) {
                        best = &m->items[i];
                        longest = n;
                }
        }
        return best;
}
