/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/inotify.h>

#include "sysctl_watch.h"

struct sysctl_watch {
        int fd;
        sd_event_source *io;
        void (*changed)(void *userdata);
        void *userdata;
};

static int on_readable(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct sysctl_watch *w = userdata;
        _Alignas(struct inotify_event) char buf[4096];
        bool any = false;

        (void) s, (void) revents;
        /* Which one it was is not asked: everything is read again, and so a lost event (overflow) is one
         * like others. */
        while (read(fd, buf, sizeof(buf)) > 0)
                any = true;
        if (any)
                w->changed(w->userdata);
        return 0;
}

static int add(int inotify_fd, const struct host *h, const char *name) {
        _cleanup_close_ int fd = -1;
        char path[128], magic[40];
        int r;

        r = intent_sysctl_path(name, path, sizeof(path));
        if (r < 0)
                return r;
        fd = host_open_file(h, path, O_PATH);
        if (fd < 0)
                return fd;
        (void) snprintf(magic, sizeof(magic), "/proc/self/fd/%d", fd);
        return inotify_add_watch(inotify_fd, magic, IN_MODIFY) < 0 ? -errno : 0;
}

int sysctl_watch_new(sd_event *e, const struct host *h, const struct intent *i,
                     void (*changed)(void *userdata), void *userdata, struct sysctl_watch **ret) {
        _cleanup_(sysctl_watch_freep) struct sysctl_watch *w = calloc(1, sizeof(*w));
        int r;

        if (!w)
                return -ENOMEM;
        w->changed = changed;
        w->userdata = userdata;
        w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (w->fd < 0)
                return -errno;
        for (size_t k = 0; k < i->n_sysctls; k++) {
                r = add(w->fd, h, i->sysctls[k].name);
                if (r < 0 && r != -ENOENT && r != -EACCES)
                        return r;
        }
        r = sd_event_add_io(e, &w->io, w->fd, EPOLLIN, on_readable, w);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(w->io, "sysctl writes");
        *ret = TAKE_PTR(w);
        return 0;
}

struct sysctl_watch *sysctl_watch_free(struct sysctl_watch *w) {
        if (!w)
                return NULL;
        sd_event_source_disable_unref(w->io);
        (void) close_fd(w->fd);
        free(w);
        return NULL;
}
