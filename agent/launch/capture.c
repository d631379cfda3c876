/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#define PROBLEM_MAX 512
#define EXIT_SOME 3 /* tpu-stack: some process could not be read */

struct capture {
        sd_event_source *out_io, *err_io, *child, *timer;
        int out_fd, err_fd;
        pid_t pid;
        const struct capture_handlers *handlers;
        void *userdata;
        char *text;
        size_t len, size;
        char problem[PROBLEM_MAX];
        size_t problem_len;
        bool cut, exited, reported;
        siginfo_t status;
};

/* tpu-stack(1): a process begins with "process PID", a thread with "thread TID", at the start of a line. */
static void count(const char *text, uint32_t *ret_processes, uint32_t *ret_threads) {
        *ret_processes = *ret_threads = 0;
        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (startswith(line, "process "))
                        (*ret_processes)++;
                else if (startswith(line, "thread "))
                        (*ret_threads)++;
        }
}

/* What the tool's exit code says once all its text is here. */
static int judge(const struct capture *c, bool *ret_partial) {
        bool exited = c->status.si_code == CLD_EXITED;

        if (exited && c->status.si_status == EXIT_SOME && c->len == 0)
                return -ESRCH; /* nothing could be read, or there is nothing of Python */
        if (exited && c->status.si_status == EXIT_SOME)
                *ret_partial = true;
        else if (!c->cut && (!exited || c->status.si_status != 0))
                return -EIO;
        return 0;
}

static void report(struct capture *c, int error) {
        struct capture_result r = { .error = error,
                                    .text = c->text ? c->text : "",
                                    .len = c->len,
                                    .partial = c->cut,
                                    .problem = c->problem };

        if (c->reported)
                return;
        c->reported = true;
        count(r.text, &r.processes, &r.threads);
        if (error == 0)
                r.error = judge(c, &r.partial);
        c->handlers->done(c, &r, c->userdata);
}

/* All is known once the child is gone and both pipes are at their end. */
static void settle(struct capture *c) {
        if (!c->exited || c->out_fd >= 0 || c->err_fd >= 0)
                return;
        report(c, 0);
        c->handlers->gone(c, c->userdata);
}

static void close_pipe(sd_event_source **io, int *fd) {
        *io = sd_event_source_disable_unref(*io);
        *fd = close_fd(*fd);
}

static int append(struct capture *c, const char *data, size_t n) {
        if (c->len + n > CAPTURE_TEXT_MAX) {
                n = CAPTURE_TEXT_MAX - c->len;
                c->cut = true;
        }
        if (c->len + n + 1 > c->size) {
                size_t size = MAX(c->size * 2, c->len + n + 1);
                char *text = realloc(c->text, size);

                if (!text)
                        return -ENOMEM;
                c->text = text;
                c->size = size;
        }
        memcpy(c->text + c->len, data, n);
        c->len += n;
        c->text[c->len] = '\0';
        return 0;
}

static int on_out(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct capture *c = userdata;
        char buf[16384];
        ssize_t n;

        (void) s;
        (void) revents;
        n = read(fd, buf, sizeof(buf));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n > 0 && append(c, buf, (size_t) n) == 0 && !c->cut)
                return 0;
        close_pipe(&c->out_io, &c->out_fd); /* a tool that writes on gets SIGPIPE */
        settle(c);
        return 0;
}

static int on_err(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct capture *c = userdata;
        char buf[1024];
        ssize_t n;

        (void) s;
        (void) revents;
        n = read(fd, buf, sizeof(buf));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n > 0) {
                size_t k = MIN((size_t) n, sizeof(c->problem) - 1 - c->problem_len);

                memcpy(c->problem + c->problem_len, buf, k);
                c->problem_len += k;
                c->problem[c->problem_len] = '\0';
                return 0;
        }
        while (c->problem_len > 0 && c->problem[c->problem_len - 1] == '\n')
                c->problem[--c->problem_len] = '\0';
        close_pipe(&c->err_io, &c->err_fd);
        settle(c);
        return 0;
}

static int on_child(sd_event_source *s, const siginfo_t *si, void *userdata) {
        struct capture *c = userdata;

        (void) s;
        c->status = *si;
        c->exited = true;
        c->timer = sd_event_source_disable_unref(c->timer);
        settle(c);
        return 0;
}

static int on_timeout(sd_event_source *s, uint64_t usec, void *userdata) {
        struct capture *c = userdata;

        (void) s;
        (void) usec;
        if (!c->exited)
                /* our own child, not yet waited for: the pid cannot be another's */
                (void) kill(c->pid, SIGKILL);
        close_pipe(&c->out_io, &c->out_fd);
        close_pipe(&c->err_io, &c->err_fd);
        report(c, -ETIMEDOUT);
        settle(c);
        return 0;
}

static int spawn(const char *tool, const pid_t *pids, size_t n, int out, int err, pid_t *ret) {
        char *const environment[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" },
                                      (char[]){ "LANG=C.UTF-8" }, NULL };
        _cleanup_free_ char **argv = calloc(n + 2, sizeof(*argv));
        _cleanup_free_ char *words = calloc(n + 1, 16), *path = strdup(tool);
        posix_spawn_file_actions_t files;
        posix_spawnattr_t attributes;
        sigset_t none, all;
        int r;

        if (!argv || !words || !path)
                return -ENOMEM;
        argv[0] = path;
        for (size_t i = 0; i < n; i++) {
                argv[i + 1] = words + i * 16;
                (void) snprintf(argv[i + 1], 16, "%d", (int) pids[i]);
        }
        (void) sigemptyset(&none);
        (void) sigfillset(&all);
        /* these cannot fail in glibc but for lack of memory, which spawn then says */
        (void) posix_spawn_file_actions_init(&files);
        (void) posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        (void) posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
        (void) posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
        (void) posix_spawnattr_init(&attributes);
        (void) posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                             POSIX_SPAWN_SETPGROUP);
        (void) posix_spawnattr_setsigmask(&attributes, &none); /* sd-event blocks the signals it handles */
        (void) posix_spawnattr_setsigdefault(&attributes, &all);
        r = -posix_spawn(ret, tool, &files, &attributes, argv, environment);
        (void) posix_spawn_file_actions_destroy(&files);
        (void) posix_spawnattr_destroy(&attributes);
        return r;
}

static int watch(struct capture *c, sd_event *e) {
        int r;

        r = sd_event_add_child(e, &c->child, c->pid, WEXITED, on_child, c);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->child, "capture-child");
        r = sd_event_add_io(e, &c->out_io, c->out_fd, EPOLLIN, on_out, c);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->out_io, "capture-text");
        r = sd_event_add_io(e, &c->err_io, c->err_fd, EPOLLIN, on_err, c);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->err_io, "capture-problem");
        r = sd_event_add_time_relative(e, &c->timer, CLOCK_MONOTONIC, CAPTURE_TIMEOUT, 250 * USEC_PER_MSEC,
                                       on_timeout, c);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->timer, "capture-timeout");
        return 0;
}

int capture_new(sd_event *e, const char *tool, const pid_t *pids, size_t n, const struct capture_handlers *h,
                void *userdata, struct capture **ret) {
        int out[2] = { -1, -1 }, err[2] = { -1, -1 };
        struct capture *c;
        int r;

        if (n == 0 || n > CAPTURE_PIDS_MAX)
                return n == 0 ? -ESRCH : -E2BIG;
        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        r = pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 ? -errno : 0;
        if (r == 0)
                r = spawn(tool, pids, n, out[1], err[1], &c->pid);
        (void) close_fd(out[1]);
        (void) close_fd(err[1]);
        c->out_fd = out[0];
        c->err_fd = err[0];
        c->handlers = h;
        c->userdata = userdata;
        if (r == 0)
                r = watch(c, e);
        if (r < 0) {
                (void) capture_free(c);
                return r;
        }
        *ret = c;
        return 0;
}

struct capture *capture_free(struct capture *c) {
        if (!c)
                return NULL;
        c->child = sd_event_source_disable_unref(c->child);
        c->timer = sd_event_source_disable_unref(c->timer);
        close_pipe(&c->out_io, &c->out_fd);
        close_pipe(&c->err_io, &c->err_fd);
        if (c->pid > 0 && !c->exited) {
                (void) kill(c->pid, SIGKILL);
                (void) waitpid(c->pid, NULL, WNOHANG); /* not gone yet: PID 1 waits for it after us */
        }
        free(c->text);
        free(c);
        return NULL;
}
