/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "spawn_program.h"

#define REAP_TIMEOUT (100 * USEC_PER_MSEC) /* between SIGKILL and its end; a stuck one does not end */

static int spawn(const struct worker_program *program, const struct host *h, const struct probe *p, int out,
                 pid_t *ret) {
        char *environment[] = { NULL };
        const char *argv[8];
        const struct spawn_options o = {
                .path = program->path, .argv = argv, .environment = environment, .out = out, .error = -1
        };
        size_t n = 0;

        argv[n++] = program->path;
        if (program->verb)
                argv[n++] = program->verb;
        if (h->root) {
                argv[n++] = "--root";
                argv[n++] = h->root;
        }
        argv[n++] = "--probe";
        argv[n++] = p->name;
        argv[n] = NULL;
        return spawn_program(&o, ret);
}

/* What spawn_program() does, without another program. */
static _Noreturn void serve(const struct worker_program *program, const struct host *h,
                            const struct probe *p, int out) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC), code = EXIT_FAILURE;
        sigset_t none;

        (void) sigemptyset(&none);
        if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
            sigprocmask(SIG_SETMASK, &none, NULL) == 0 && clearenv() == 0)
                code = program->serve(h, p->name);
        _exit(fflush(stdout) == EOF ? EXIT_FAILURE : code); /* not exit(3): its handlers are the caller's */
}

static int fork_one(const struct worker_program *program, const struct host *h, const struct probe *p,
                    int out, pid_t *ret) {
        pid_t pid;

        (void) fflush(stdout); /* else the child would write it once more; who cannot write will say so */
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0)
                serve(program, h, p, out);
        *ret = pid;
        return 0;
}

int worker_start(const struct worker_program *program, const struct host *h, const struct probe *p,
                 struct worker *ret) {
        _cleanup_close_ int in = -1, out = -1;
        int fds[2], r;
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        in = fds[0];
        out = fds[1];
        if (fcntl(in, F_SETFL, O_NONBLOCK) < 0)
                return -errno;
        r = program->serve ? fork_one(program, h, p, out, &pid) : spawn(program, h, p, out, &pid);
        if (r < 0)
                return r;
        ret->probe = p;
        ret->pid = pid;
        ret->fd = TAKE_FD(in);
        ret->started = host_now(h);
        wire_restart(&ret->reader);
        return 0;
}

int worker_take(struct worker *w, struct sink *s) {
        char buf[4096];

        for (;;) {
                ssize_t n = read(w->fd, buf, sizeof(buf));
                int r;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                if (n == 0)
                        return !w->reader.done ? -EPIPE : w->reader.result < 0 ? w->reader.result : 1;
                r = wire_take(&w->reader, buf, (size_t) n, s);
                if (r < 0)
                        return r;
        }
}

void worker_tell_failure(const struct probe *p, int error, bool stuck, struct sink *s) {
        struct finding f;

        finding_init(&f, p->name, NULL);
        finding_set(f.found, "nothing");
        if (error == -ETIMEDOUT) {
                finding_set(f.reason, "no answer within %u s: a file system or another process hangs%s",
                            (unsigned) (p->timeout / USEC_PER_SEC),
                            stuck ? "; the process that looks cannot be killed and is left alone" : "");
                finding_set(f.remedy, "ps -eo pid,stat,wchan:30,comm | grep ' D'; df; dmesg | tail");
        } else
                finding_set(f.reason, "nothing could be looked at: %s",
                            error == -EPIPE ? "the process that looks ended early" : strerror(-error));
        s->finding(s, &f);
}

static usec_t now(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t); /* it never fails for this clock */
        return (usec_t) t.tv_sec * USEC_PER_SEC + (usec_t) t.tv_nsec / NSEC_PER_USEC;
}

/* 0, or -ETIMEDOUT when it does not end, which only a kernel wait can do to a killed process. */
static int reap(pid_t pid) {
        for (usec_t waited = 0; waited <= REAP_TIMEOUT; waited += USEC_PER_MSEC) {
                pid_t r = waitpid(pid, NULL, WNOHANG);

                if (r == pid || (r < 0 && errno != EINTR))
                        return 0;
                (void) usleep(USEC_PER_MSEC);
        }
        return -ETIMEDOUT;
}

int worker_finish(struct worker *w, struct sink *s) {
        usec_t deadline = now() + w->probe->timeout;
        int r = 0;

        while (r == 0) {
                struct pollfd p = { .fd = w->fd, .events = POLLIN };
                usec_t t = now();

                if (t >= deadline)
                        r = -ETIMEDOUT;
                else if (poll(&p, 1, (int) ((deadline - t + USEC_PER_MSEC - 1) / USEC_PER_MSEC)) > 0)
                        r = worker_take(w, s);
        }
        w->fd = close_fd(w->fd);
        if (r < 0)
                (void) kill(w->pid,
                            SIGKILL); /* our own child, not yet waited for: the pid is nobody else's */
        if (reap(w->pid) < 0 && r == -ETIMEDOUT)
                worker_tell_failure(w->probe, r, true, s);
        else if (r < 0)
                worker_tell_failure(w->probe, r, false, s);
        w->pid = 0;
        return r < 0 ? r : 0;
}
