/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "child.h"
#include "grow.h"
#include "io.h"
#include "loop_timer.h"

#define CHILD_LAST_MOMENT (100 * USEC_PER_MSEC) /* for one that was killed to be gone */

struct child {
        struct child_work work;
        pid_t pid;
        int pidfd, answer_fd;
        int failure;  /* why we killed it; 0: we have not */
        bool program; /* not forked only */
        bool freed;   /* it could not be ended at once, and is only waited for */
        char *answer;
        size_t len, size;
        sd_event_source *end, *limit, *more;
};

__attribute__((noreturn)) static void run_and_exit(const struct child_work *w, pid_t parent, int fd) {
        int r;

        if (!w->outlives && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent))
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
        else if (c->failure < 0)
                *ret = c->failure;
        else if (info.si_code != CLD_EXITED || (c->program && info.si_status != 0))
                *ret = -EIO;
        else
                *ret = -info.si_status;
        c->pid = 0;
        if (c->work.there)
                --*c->work.there;
        return true;
}

static void give_child_up(struct child *c, int failure) {
        c->failure = failure;
        (void) kill(c->pid, SIGKILL); /* not reaped yet, so the number is still its own */
}

/* What is there now. 1: that was all, or all that is wanted; 0: more may come; -errno. */
static int read_answer(struct child *c) {
        size_t max = c->work.max > 0 ? c->work.max : CHILD_ANSWER_MAX;

        for (;;) {
                bool too_much;
                ssize_t n;
                int r = grow(&c->answer, &c->size, MIN(c->len + CHILD_ANSWER_MAX, max + 2), 1);

                if (r < 0)
                        return r;
                c->answer[c->len] = '\0';
                n = read(c->answer_fd, c->answer + c->len, c->size - 1 - c->len);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                too_much = c->len + (size_t) n > max && c->work.max > 0;
                c->len = MIN(c->len + (size_t) n, max);
                c->answer[c->len] = '\0';
                if (too_much)
                        return -E2BIG;
                if (n == 0 || (c->len == max && c->work.max == 0))
                        return 1;
        }
}

static int on_more(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct child *c = userdata;
        int r = read_answer(c);

        (void) s, (void) fd, (void) revents;
        if (r != 0)
                c->more = sd_event_source_disable_unref(c->more);
        if (r < 0)
                give_child_up(c, r);
        return 0;
}

static int on_end(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        _cleanup_free_ char *answer = NULL; /* done may free the child and go on with its answer */
        struct child *c = userdata;
        int result = 0, r;

        (void) s, (void) fd, (void) revents;
        if (!reap(c, &result))
                return 0;
        if (c->freed) {
                (void) child_free(c);
                return 0;
        }
        (void) sd_event_source_set_enabled(c->end, SD_EVENT_OFF);
        if (c->limit)
                (void) sd_event_source_set_enabled(c->limit, SD_EVENT_OFF);
        c->more = sd_event_source_disable_unref(c->more);
        r = result == 0 || !c->program ? read_answer(c) : 0;
        answer = TAKE_PTR(c->answer);
        c->work.done(r < 0 ? r : result, answer ? answer : "", c->len, c->work.userdata);
        return 0;
}

static int on_limit(sd_event_source *s, uint64_t usec, void *userdata) {
        _cleanup_free_ char *answer = NULL; /* as in on_end() */
        struct child *c = userdata;
        size_t len = c->len;

        (void) usec;
        if (c->failure == -ETIMEDOUT) { /* it was killed, and is there */
                answer = TAKE_PTR(c->answer);
                c->len = c->size = 0;
                c->work.done(-ETIMEDOUT, answer ? answer : "", len, c->work.userdata);
                return 0;
        }
        give_child_up(c, -ETIMEDOUT);
        if (c->work.there || c->work.stuck_too)
                (void) loop_timer_in(s, CHILD_LAST_MOMENT); /* fails only when the loop ends */
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
        if (c->work.max > 0)
                r = sd_event_add_io(e, &c->more, c->answer_fd, EPOLLIN, on_more, c);
        if (r >= 0 && c->more)
                (void) sd_event_source_set_description(c->more, c->work.name);
        if (r < 0 || c->work.timeout == 0)
                return r;
        r = loop_timer_new(e, CLOCK_MONOTONIC, 50 * USEC_PER_MSEC, c->work.name, on_limit, c, &c->limit);
        return r < 0 ? r : loop_timer_in(c->limit, c->work.timeout);
}

/* A forked one, or a program. fd: its end of the pipe. */
static int start_process(struct child *c, int fd) {
        pid_t parent = getpid();
        struct spawn_options o;

        /* read as it comes: the child waits for us */
        if ((c->work.program || c->work.max > 0) && fcntl(fd, F_SETFL, 0) < 0)
                return -errno;
        if (c->work.program) {
                o = *c->work.program;
                o.out = fd;
                return spawn_program(&o, &c->pid);
        }
        c->pid = fork();
        if (c->pid == 0)
                run_and_exit(&c->work, parent, fd);
        return c->pid < 0 ? -errno : 0;
}

int child_start(sd_event *e, const struct child_work *w, struct child **ret) {
        _cleanup_(child_freep) struct child *c = calloc(1, sizeof(*c));
        int fds[2], r;

        if (!c)
                return -ENOMEM;
        *c = (struct child) { .work = *w, .program = w->program, .pidfd = -1, .answer_fd = -1 };
        if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
                return -errno;
        c->answer_fd = fds[0];
        r = start_process(c, fds[1]);
        (void) close_fd(fds[1]);
        if (r < 0) {
                c->pid = 0;
                return r;
        }
        r = watch(c, e);
        c->work.outlives = w->outlives && r >= 0; /* nobody would hear of one that is not watched */
        if (r < 0)
                return r;
        if (w->there)
                ++*w->there;
        *ret = TAKE_PTR(c);
        return 0;
}

/* A killed process is gone within moments, if it is not in state D: then init gets the rest of it. */
static void end_child(pid_t pid) {
        (void) kill(pid, SIGKILL);
        for (unsigned i = 0; i < 100 && waitpid(pid, NULL, WNOHANG) == 0; i++)
                (void) usleep(1000);
}

bool child_is_there(const struct child *c) {
        return c->pid > 0;
}

struct child *child_free(struct child *c) {
        if (!c)
                return NULL;
        if (c->pid > 0 && c->work.there && c->end) {
                give_child_up(c, -ECANCELED);
                c->freed = true;
                c->limit = sd_event_source_disable_unref(c->limit);
                c->more = sd_event_source_disable_unref(c->more);
                return NULL;
        }
        c->end = sd_event_source_disable_unref(c->end);
        c->limit = sd_event_source_disable_unref(c->limit);
        c->more = sd_event_source_disable_unref(c->more);
        if (c->pid > 0 && !c->work.outlives)
                end_child(c->pid);
        c->pidfd = close_fd(c->pidfd);
        c->answer_fd = close_fd(c->answer_fd);
        free(c->answer);
        free(c);
        return NULL;
}
