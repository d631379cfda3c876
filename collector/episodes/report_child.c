/* SPDX-License-Identifier: Apache-2.0 */
#include "report_child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "spawn_program.h"

struct report_child {
        sd_event_source *io, *child, *timer;
        int fd;
        pid_t pid;
        bool exited;
        int result;
        char *text;
        size_t len, size, max;
        void (*done)(int result, const char *text, void *userdata);
        void *userdata;
};

static void settle(struct report_child *c) {
        if (c->exited && c->fd < 0)
                c->done(c->result, c->text ? c->text : "", c->userdata);
}

static void end_reading(struct report_child *c, int result) {
        c->io = sd_event_source_disable_unref(c->io);
        c->fd = close_fd(c->fd);
        if (c->result == 0)
                c->result = result;
}

static int more_room(struct report_child *c, size_t n) {
        size_t size = MAX(c->size * 2, c->len + n + 1);
        char *text;

        if (c->len + n > c->max)
                return -E2BIG;
        if (c->len + n + 1 <= c->size)
                return 0;
        text = realloc(c->text, size);
        if (!text)
                return -ENOMEM;
        c->text = text;
        c->size = size;
        return 0;
}

static int on_io(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct report_child *c = userdata;
        char buf[65536];
        ssize_t n = read(fd, buf, sizeof(buf));
        int r = 0;

        (void) s, (void) revents;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n > 0)
                r = more_room(c, (size_t) n);
        if (n > 0 && r == 0) {
                memcpy(c->text + c->len, buf, (size_t) n);
                c->len += (size_t) n;
                c->text[c->len] = '\0';
                return 0;
        }
        end_reading(c, r); /* one that writes on gets SIGPIPE */
        settle(c);
        return 0;
}

static int on_child(sd_event_source *s, const siginfo_t *si, void *userdata) {
        struct report_child *c = userdata;

        (void) s;
        c->exited = true;
        if (c->result == 0 && (si->si_code != CLD_EXITED || si->si_status != 0))
                c->result = -EIO;
        settle(c);
        return 0;
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        struct report_child *c = userdata;

        (void) s, (void) usec;
        if (!c->exited)
                (void) kill(c->pid, SIGKILL); /* our own child, not waited for yet */
        end_reading(c, 0);
        c->result = -ETIMEDOUT;
        settle(c);
        return 0;
}

static int watch(struct report_child *c, sd_event *e, usec_t timeout) {
        int r = sd_event_add_child(e, &c->child, c->pid, WEXITED, on_child, c);

        if (r >= 0)
                r = sd_event_source_set_description(c->child, "report-child");
        if (r >= 0)
                r = sd_event_add_io(e, &c->io, c->fd, EPOLLIN, on_io, c);
        if (r >= 0)
                r = sd_event_source_set_description(c->io, "report-text");
        if (r >= 0)
                r = sd_event_add_time_relative(e, &c->timer, CLOCK_BOOTTIME, timeout, 100 * USEC_PER_MSEC,
                                               on_timer, c);
        if (r >= 0)
                r = sd_event_source_set_description(c->timer, "report-timeout");
        return r < 0 ? r : 0;
}

int report_child_new(sd_event *e, char *const argv[], usec_t timeout, size_t max,
                     void (*done)(int result, const char *text, void *userdata), void *userdata,
                     struct report_child **ret) {
        _cleanup_(report_child_freep) struct report_child *c = calloc(1, sizeof(*c));
        struct spawn_options o = {
                .path = argv[0], .argv = (const char *const *) argv, .environment = environ, .error = -1
        };
        int out[2] = { -1, -1 }, r;

        if (!c)
                return -ENOMEM;
        *c = (struct report_child){
                .fd = -1, .exited = true, .max = max, .done = done, .userdata = userdata
        };
        if (pipe2(out, O_CLOEXEC) < 0)
                return -errno;
        c->fd = out[0];
        o.out = out[1];
        r = spawn_program(&o, &c->pid);
        (void) close_fd(out[1]);
        if (r < 0)
                return r;
        c->exited = false;
        r = watch(c, e, timeout);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

struct report_child *report_child_free(struct report_child *c) {
        if (!c)
                return NULL;
        c->child = sd_event_source_disable_unref(c->child);
        c->timer = sd_event_source_disable_unref(c->timer);
        c->io = sd_event_source_disable_unref(c->io);
        c->fd = close_fd(c->fd);
        if (!c->exited) {
                (void) kill(c->pid, SIGKILL);
                (void) waitpid(c->pid, NULL, WNOHANG); /* not gone yet: PID 1 waits for it after us */
        }
        free(c->text);
        free(c);
        return NULL;
}
