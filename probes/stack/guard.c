/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"

#include <assert.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "clock.h"
#include "finding.h"
#include "log.h"
#include "proc_pid.h"
#include "processes.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#define LONGER 3u /* a worker that computes has so many times the time: the machine may be busy */
#define LOOK   (100 * USEC_PER_MSEC) /* then it is looked at so often */
#define LEFT   SIGUSR2               /* to a copy: the process that made it has ended */

enum message_kind { STEP_BEGUN, STEP_ENDED, STEP_WANTS_MEMORY, WORK_ENDED };

struct guard_message {
        enum message_kind kind;
        pid_t worker, standby; /* standby: of a step that has begun */
        usec_t timeout;        /* likewise */
        int code;              /* of work that has ended */
};

static const char *const reason_words[] = {
        [GUARD_GO] = "",
        [GUARD_SLOW] = "its memory or a file of it does not answer",
        [GUARD_CPU] = "it takes too long to make sense of its memory or files",
        [GUARD_MEMORY] = "reading its memory or files takes more memory than tpu-stack may have",
        [GUARD_CRASHED] = "tpu-stack crashed over it: please report this",
};

const char *guard_words(enum guard_reason reason) {
        return reason_words[reason];
}

/* --- The worker --------------------------------------------------------------------------------------- */

static void send_message(const struct guard *g, struct guard_message m) {
        m.worker = getpid();
        (void) !send(g->fd, &m, sizeof(m), MSG_NOSIGNAL); /* fails when nobody watches any more */
}

/*
 * We end with the one that watches. A copy has it as its parent once the worker that made it has ended,
 * which one that hangs in the kernel may not do for long.
 */
static void follow_watcher(const struct guard *g) {
        pid_t parent = getppid();

        if (parent == g->watcher)
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != g->watcher && parent != g->maker)
                _exit(verdict_exit_code(VERDICT_UNKNOWN));
}

/* A signal to the copy: whether the copy is to go on, and why. */
static enum guard_reason read_signal(const struct guard *g) {
        struct signalfd_siginfo info;

        if (read(g->signals, &info, sizeof(info)) != (ssize_t) sizeof(info))
                return GUARD_GO;
        if (info.ssi_signo == LEFT && getppid() != g->watcher)
                _exit(verdict_exit_code(VERDICT_UNKNOWN)); /* nobody watches any more */
        return info.ssi_signo == SIGUSR1 ? (enum guard_reason) info.ssi_int : GUARD_GO;
}

/* The copy: sleeps until the worker says that the step has ended, or the one that watches that it is to go
 * on. */
static enum guard_reason stand_by(struct guard *g, int ended) {
        enum guard_reason reason = GUARD_GO;
        char byte;

        (void) prctl(PR_SET_PDEATHSIG, LEFT);
        if (getppid() != g->maker && getppid() != g->watcher)
                _exit(verdict_exit_code(VERDICT_UNKNOWN)); /* both ended before that */
        while (reason == GUARD_GO) {
                struct pollfd p[] = { { .fd = ended, .events = POLLIN },
                                      { .fd = g->signals, .events = POLLIN } };

                (void) poll(p, ELEMENTSOF(p), -1); /* interrupted: again */
                if (p[0].revents && read(ended, &byte, 1) == 1)
                        _exit(0);
                if (p[0].revents)
                        ended = close_fd(ended); /* the worker has ended within the step */
                if (p[1].revents)
                        reason = read_signal(g);
        }
        (void) close_fd(ended);
        follow_watcher(g);
        g->standby = 0;
        assert(reason > GUARD_GO && reason <= GUARD_CRASHED);
        return reason;
}

enum guard_reason guard_begin(struct guard *g, usec_t timeout) {
        pid_t standby, self;
        int fds[2];

        assert(g->standby == 0);
        if (g->fd < 0)
                return GUARD_GO;
        follow_watcher(g);
        self = getpid();
        if (pipe2(fds, O_CLOEXEC) < 0)
                return GUARD_GO;
        standby = fork();
        if (standby == 0) {
                (void) close_fd(fds[1]);
                g->maker = self;
                return stand_by(g, fds[0]);
        }
        (void) close_fd(fds[0]);
        if (standby < 0) {
                (void) close_fd(fds[1]);
                return GUARD_GO;
        }
        g->standby = standby;
        g->ended = fds[1];
        send_message(g,
                     (struct guard_message){ .kind = STEP_BEGUN, .standby = standby, .timeout = timeout });
        return GUARD_GO;
}

void guard_end(struct guard *g) {
        if (g->standby == 0)
                return;
        send_message(g, (struct guard_message){ .kind = STEP_ENDED });
        (void) !write(g->ended, "", 1); /* it is there: nobody else ends it */
        g->ended = close_fd(g->ended);
        (void) waitpid(g->standby, NULL, 0);
        g->standby = 0;
}

void guard_give_up(struct guard *g) {
        if (g->standby == 0)
                return;
        send_message(g, (struct guard_message){ .kind = STEP_WANTS_MEMORY });
        for (;;)
                (void) pause(); /* until it is ended */
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1 /* clang's word for what gcc defines */
#endif
#endif

static void limit_memory(void) {
#ifndef __SANITIZE_ADDRESS__ /* which asks for terabytes */
        struct rlimit l;

        if (getrlimit(RLIMIT_DATA, &l) < 0)
                return;
        l.rlim_cur = MIN(l.rlim_cur, (rlim_t) GUARD_DATA_MAX);
        (void) setrlimit(RLIMIT_DATA, &l); /* if not, there is less of a bound */
#endif
}

static _Noreturn void do_work(struct guard *g, int (*work)(struct guard *g, void *userdata),
                              void *userdata) {
        int code;

        follow_watcher(g);
        limit_memory();
        code = work(g, userdata);
        send_message(g, (struct guard_message){ WORK_ENDED, .code = code });
        _exit(code);
}

/* --- The one that watches ----------------------------------------------------------------------------- */

struct watch {
        int fd, worker_fd; /* worker_fd: -1: this kernel has none */
        pid_t worker, standby;
        usec_t begun, timeout, look; /* of a step; look: at the worker's state */
        int output[2];               /* what workers write to standard output and error */
        int code;
};

/* Hands on what workers have written. -errno of writing; 0 also when there is nothing. */
static int hand_on(struct watch *w, int which) {
        const int to[] = { STDOUT_FILENO, STDERR_FILENO };
        usec_t begun = clock_boot(&clock_system), took;
        char buf[65536];
        ssize_t n;

        while ((n = read(w->output[which], buf, sizeof(buf))) > 0)
                for (ssize_t done = 0, k; done < n; done += k) {
                        k = write(to[which], buf + done, (size_t) (n - done));
                        if (k < 0 && errno != EINTR)
                                return -errno;
                        k = MAX(k, (ssize_t) 0);
                }
        took = clock_boot(&clock_system) - begun;
        w->look += took; /* the worker may have had to wait for whoever reads it */
        w->begun += took;
        return 0;
}

static int hand_on_all(struct watch *w) {
        int r = hand_on(w, 1);

        return r < 0 ? r : hand_on(w, 0);
}

/* The state of a process, as in /proc/PID/stat; '\0': it has ended. */
static char state_of(pid_t pid) {
        _cleanup_close_ int fd = -1;
        char path[32], text[512];
        struct proc_pid_stat s;
        ssize_t n;

        (void) snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        text[MAX(n, (ssize_t) 0)] = '\0';
        return proc_pid_stat_parse(text, &s) == 0 && s.state != 'Z' && s.state != 'X' ? s.state : '\0';
}

static void watch_process(struct watch *w, pid_t worker) {
        w->worker = worker;
        w->standby = 0;
        (void) close_fd(w->worker_fd);
        w->worker_fd = (int) syscall(SYS_pidfd_open, worker, 0);
}

/* The worker is ended, and the copy goes on in its place. */
static void give_up(struct watch *w, enum guard_reason reason) {
        pid_t standby = w->standby;

        (void) kill(w->worker, SIGKILL);
        watch_process(w, standby);
        (void) sigqueue(standby, SIGUSR1, (union sigval){ .sival_int = (int) reason });
}

/* Whether that was the end of all. */
static bool on_message(struct watch *w, const struct guard_message *m) {
        if (m->worker != w->worker)
                return false; /* of one that was given up */
        if (m->kind == STEP_WANTS_MEMORY && w->standby > 0)
                give_up(w, GUARD_MEMORY);
        else if (m->kind == STEP_BEGUN) {
                w->standby = m->standby;
                w->timeout = m->timeout;
                w->begun = clock_boot(&clock_system);
                w->look = w->begun + m->timeout;
        } else if (m->kind == STEP_ENDED)
                w->standby = 0;
        w->code = m->code;
        return m->kind == WORK_ENDED;
}

/* The worker ended without a word. */
static bool on_end(struct watch *w) {
        int status = 0;

        if (w->standby > 0) {
                give_up(w, GUARD_CRASHED);
                return false;
        }
        (void) waitpid(w->worker, &status, WNOHANG);
        log_error("tpu-stack ended by signal %d: please report this", WTERMSIG(status));
        w->code = verdict_exit_code(VERDICT_UNKNOWN);
        return true;
}

/* The step has had its time. */
static bool on_time(struct watch *w) {
        char state = state_of(w->worker);

        if (state == '\0')
                return on_end(w);
        if (state != 'R')
                give_up(w, GUARD_SLOW);
        else if (clock_boot(&clock_system) >= w->begun + LONGER * w->timeout)
                give_up(w, GUARD_CPU);
        else
                w->look = clock_boot(&clock_system) + LOOK;
        return false;
}

static int time_left(const struct watch *w) {
        usec_t now = clock_boot(&clock_system);

        if (w->standby == 0)
                return w->worker_fd < 0 ? (int) (LOOK / USEC_PER_MSEC) : -1;
        return w->look > now ? (int) ((w->look - now) / USEC_PER_MSEC) + 1 : 0;
}

static int watch_worker(int fd, pid_t worker, const int output[2]) {
        struct watch w = { .fd = fd, .worker_fd = -1, .output = { output[0], output[1] } };
        bool ended = false;
        int r = 0;

        watch_process(&w, worker);
        while (!ended && r == 0) {
                struct pollfd p[] = { { .fd = fd, .events = POLLIN },
                                      { .fd = w.worker_fd, .events = POLLIN },
                                      { .fd = output[0], .events = POLLIN },
                                      { .fd = output[1], .events = POLLIN } };
                struct guard_message m;
                bool gone;

                (void) poll(p, ELEMENTSOF(p), time_left(&w)); /* interrupted: again */
                r = hand_on_all(&w);
                gone = p[1].revents || (w.worker_fd < 0 && state_of(w.worker) == '\0');
                while (!ended && recv(fd, &m, sizeof(m), MSG_DONTWAIT) == (ssize_t) sizeof(m)) {
                        pid_t before = w.worker;

                        ended = on_message(&w, &m);
                        gone = gone && w.worker == before;
                }
                if (!ended && gone)
                        ended = on_end(&w);
                else if (!ended && w.standby > 0 && clock_boot(&clock_system) >= w.look)
                        ended = on_time(&w);
                while (waitpid(-1, NULL, WNOHANG) > 0)
                        ;
        }
        (void) close_fd(w.worker_fd);
        if (r < 0)
                (void) kill(w.worker, SIGKILL);
        (void) waitpid(w.worker, NULL, 0); /* at once; or it is not our child */
        if (r == 0)
                r = hand_on_all(&w); /* before its last word it wrote the rest */
        if (r < 0)
                (void) log_error_errno(r, "writing the stacks: %m");
        return r < 0 ? verdict_exit_code(VERDICT_UNKNOWN) : w.code;
}

/* Two pipes, of which we read without waiting. */
static int open_output(int from[2], int to[2]) {
        for (int i = 0; i < 2; i++) {
                int fds[2];

                if (pipe2(fds, O_CLOEXEC) < 0)
                        return -errno;
                from[i] = fds[0];
                to[i] = fds[1];
                if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
                        return -errno;
        }
        return 0;
}

int guard_run(int (*work)(struct guard *g, void *userdata), void *userdata) {
        int fds[2] = { -1, -1 }, from[2] = { -1, -1 }, to[2] = { -1, -1 }, code = -1;
        struct guard g = GUARD_NULL;
        sigset_t set;
        pid_t worker = -1;

        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGUSR1);
        (void) sigaddset(&set, LEFT);
        (void) sigprocmask(SIG_BLOCK, &set, NULL);
        (void) prctl(PR_SET_CHILD_SUBREAPER, 1); /* copies become our children when their worker ends */
        g.watcher = getpid();
        g.signals = signalfd(-1, &set, SFD_CLOEXEC);
        if (g.signals >= 0 && open_output(from, to) == 0 &&
            socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0)
                worker = fork();
        if (worker == 0) {
                (void) close_fd(fds[0]);
                g.fd = fds[1];
                if (dup2(to[0], STDOUT_FILENO) < 0 || dup2(to[1], STDERR_FILENO) < 0)
                        _exit(verdict_exit_code(VERDICT_UNKNOWN));
                do_work(&g, work, userdata);
        }
        if (worker > 0) {
                /* Who watches needs none of them. Where a filter forbids that, it just has them. */
                (void) capabilities_drop((const unsigned[]){ CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE,
                                                             CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE },
                                         5);
                to[0] = close_fd(to[0]);
                to[1] = close_fd(to[1]);
                fds[1] = close_fd(fds[1]);
                code = watch_worker(fds[0], worker, from);
        }
        (void) close_fd(g.signals);
        for (int i = 0; i < 2; i++) {
                (void) close_fd(fds[i]);
                (void) close_fd(from[i]);
                (void) close_fd(to[i]);
        }
        return worker > 0 ? code : work(&g, userdata); /* nobody watches, then */
}
