/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "child.h"
#include "io.h"

struct child {
        struct child_work work;
        pid_t pid;
        int pidfd, answer_fd;
        bool timed_out;
        sd_event_source *end, *limit;
};

__attribute__((noreturn)) static void run_and_exit(const struct child_work *w, pid_t parent, int fd) {
        int r;

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
                _exit(ECHILD);
        io_close_others(fd);
        r = w->run(fd, w->data);
        _exit(r < 0 && r > -256 ? -r : 0);
}

/* Whether the child is gone; its result then. */
static bool reap(struct child *c, int *ret) {
        siginfo_t info = { 0 };

        if (waitid(P_PID, (id_t) c->pid, &info, WEXITED | WNOHANG) < 0)
                *ret = -errno; /* somebody else took it */
        else if (info.si_pid == 0)
                return false;
        else if (c->timed_out)
                *ret = -ETIMEDOUT;
        else
                *ret = info.si_code == CLD_EXITED ? -info.si_status : -EIO;
        c->pid = 0;
        return true;
}

static int on_end(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct child *c = userdata;
        char answer[CHILD_ANSWER_MAX + 1];
        ssize_t n;
        int r = 0;

        (void) s, (void) fd, (void) revents;
        if (!reap(c, &r))
                return 0;
        (void) sd_event_source_set_enabled(c->end, SD_EVENT_OFF);
        (void) sd_event_source_set_enabled(c->limit, SD_EVENT_OFF);
        n = io_read_up_to(c->answer_fd, answer, CHILD_ANSWER_MAX);
        answer[MAX(n, 0)] = '\0';
        c->work.done(r, answer, (size_t) MAX(n, 0), c->work.userdata);
        return 0;
}

static int on_limit(sd_event_source *s, uint64_t usec, void *userdata) {
        struct child *c = userdata;

        (void) s, (void) usec;
        c->timed_out = true;
        (void) kill(c->pid, SIGKILL); /* not reaped yet, so the number is still its own */
        return 0;
}

static int watch(struct child *c, sd_event *e) {
        int r;

        c->pidfd = (int) syscall(SYS_pidfd_open, c->pid, 0);
        if (c->pidfd < 0)
                return -errno;
        r = sd_event_add_io(e, &c->end, c->pidfd, EPOLLIN, on_end, c);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->end, c->work.name);
        r = sd_event_add_time_relative(e, &c->limit, CLOCK_MONOTONIC, c->work.timeout, 50 * USEC_PER_MSEC,
                                       on_limit, c);
        if (r >= 0)
                (void) sd_event_source_set_description(c->limit, c->work.name);
        return r;
}

int child_start(sd_event *e, const struct child_work *w, struct child **ret) {
        _cleanup_(child_freep) struct child *c = calloc(1, sizeof(*c));
        int fds[2], r;
        pid_t parent = getpid();

        if (!c)
                return -ENOMEM;
        *c = (struct child) { .work = *w, .pidfd = -1, .answer_fd = -1 };
        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
                return -errno;
        c->pid = fork();
        if (c->pid == 0)
                run_and_exit(w, parent, fds[1]);
        r = c->pid < 0 ? -errno : 0;
        (void) close_fd(fds[1]);
        c->answer_fd = fds[0];
        if (r < 0) {
                c->pid = 0;
                return r;
        }
        r = watch(c, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

/* A killed process is gone within moments, if it is not in state D: then init gets the rest of it. */
static void end_child(pid_t pid) {
        (void) kill(pid, SIGKILL);
        for (unsigned i = 0; i < 100 && waitpid(pid, NULL, WNOHANG) == 0; i++)
                (void) usleep(1000);
}

struct child *child_free(struct child *c) {
        if (!c)
                return NULL;
        c->end = sd_event_source_disable_unref(c->end);
        c->limit = sd_event_source_disable_unref(c->limit);
        if (c->pid > 0)
                end_child(c->pid);
        c->pidfd = close_fd(c->pidfd);
        c->answer_fd = close_fd(c->answer_fd);
        free(c);
        return NULL;
}
