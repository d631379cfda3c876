/* SPDX-License-Identifier: Apache-2.0 */
#include "unit_direct.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "direct_group.h"
#include "log.h"
#include "shim.h"
#include "state.h"

struct direct_run {
        struct direct_run *next;
        struct unit_direct *owner;
        char name[JOB_NAME_MAX + 1];
        int status_fd, pidfd;
        pid_t shim, command;
        sd_event_source *started, *gone, *answer;
};

struct unit_direct {
        sd_event *event;
        const struct host *host;
        struct host machine; /* whose processes they are */
        const char *tool;
        int shims_fd;
        struct direct_run *runs;
        sd_event_source *connected;
        const struct unit_events *events;
        void *userdata;
};

bool unit_direct_is_needed(const struct host *h) {
        _cleanup_close_ int fd = host_open_file(h, "/run/systemd/system", O_PATH | O_DIRECTORY);

        return fd < 0;
}

/* --- What is watched of a run -------------------------------------------------------------------------- */

static struct direct_run *direct_run_free(struct direct_run *d) {
        d->started = sd_event_source_disable_unref(d->started);
        d->gone = sd_event_source_disable_unref(d->gone);
        d->answer = sd_event_source_disable_unref(d->answer);
        d->status_fd = close_fd(d->status_fd);
        d->pidfd = close_fd(d->pidfd);
        free(d);
        return NULL;
}

static void direct_forget(void *backend, const char *name) {
        struct unit_direct *u = backend;

        for (struct direct_run **d = &u->runs; *d; d = &(*d)->next)
                if (streq((*d)->name, name)) {
                        struct direct_run *gone = *d;

                        *d = gone->next;
                        (void) direct_run_free(gone);
                        return;
                }
}

static struct direct_run *direct_find(struct unit_direct *u, const char *name) {
        for (struct direct_run *d = u->runs; d; d = d->next)
                if (streq(d->name, name))
                        return d;
        return NULL;
}

static struct direct_run *direct_run_new(struct unit_direct *u, const char *name) {
        struct direct_run *d;

        direct_forget(u, name);
        d = calloc(1, sizeof(*d));
        if (!d)
                return NULL;
        d->owner = u;
        (void) snprintf(d->name, sizeof(d->name), "%s", name);
        d->status_fd = d->pidfd = -1;
        d->next = u->runs;
        u->runs = d;
        return d;
}

static void tell_gone(struct direct_run *d) {
        struct unit_direct *u = d->owner;
        char name[JOB_NAME_MAX + 1];

        memcpy(name, d->name, sizeof(name));
        direct_forget(u, name);
        u->events->gone(name, u->userdata);
}

static int on_gone(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        (void) s, (void) fd, (void) revents;
        tell_gone(userdata);
        return 0;
}

/* -ESRCH: it is not there any more. The lock that it holds says that the number is still its own. */
static int watch_shim(struct direct_run *d) {
        struct shim_file f;
        int r;

        r = shim_file_read(d->owner->shims_fd, d->name, &f);
        if (r < 0 || !f.alive)
                return -ESRCH;
        d->pidfd = (int) syscall(SYS_pidfd_open, f.shim, 0);
        if (d->pidfd < 0)
                return -errno;
        r = shim_file_read(d->owner->shims_fd, d->name, &f);
        if (r < 0 || !f.alive)
                return -ESRCH;
        d->shim = f.shim;
        d->command = f.command;
        r = sd_event_add_io(d->owner->event, &d->gone, d->pidfd, EPOLLIN, on_gone, d);
        if (r >= 0)
                (void) sd_event_source_set_description(d->gone, "run-shim");
        return r < 0 ? r : 0;
}

/* --- Start --------------------------------------------------------------------------------------------- */

/* The pipe is at its end: the command was executed, or nothing came of it. */
static int on_started(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        struct direct_run *d = userdata;
        struct unit_direct *u = d->owner;
        char name[JOB_NAME_MAX + 1];
        uint32_t pid;
        int r;

        (void) s, (void) fd, (void) revents;
        d->started = sd_event_source_disable_unref(d->started);
        d->status_fd = close_fd(d->status_fd);
        memcpy(name, d->name, sizeof(name));
        r = watch_shim(d);
        pid = (uint32_t) d->command;
        u->events->started(name, "done", u->userdata);
        d = direct_find(u, name);
        if (!d)
                return 0;
        if (r < 0) /* its record says how it ended, or that it did not even begin */
                tell_gone(d);
        else
                u->events->running(name, pid, "", u->userdata);
        return 0;
}

/* In the child of a child: nobody of ours is its parent. */
__attribute__((noreturn)) static void become_shim(const struct unit_direct *u, const struct unit_spec *s,
                                                  int status_fd) {
        char name[JOB_NAME_MAX + 1], id[RUN_ID_MAX], root[4096], tool[4096];
        char option_root[] = "--root", option_shim[] = "--shim", option_id[] = "--id";
        char *argv[] = { tool, option_root, root, option_shim, name, option_id, id, NULL };
        sigset_t none;

        (void) snprintf(name, sizeof(name), "%s", s->name);
        (void) snprintf(id, sizeof(id), "%s", s->id);
        (void) snprintf(root, sizeof(root), "%s", u->host->root ? u->host->root : "/");
        (void) snprintf(tool, sizeof(tool), "%s", u->tool);
        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        if (status_fd == SHIM_STATUS_FD ? fcntl(status_fd, F_SETFD, 0) < 0
                                        : dup2(status_fd, SHIM_STATUS_FD) < 0)
                _exit(EXIT_FAILURE);
        (void) execv(tool, argv);
        _exit(EXIT_FAILURE);
}

static int fork_shim(const struct unit_direct *u, const struct unit_spec *s, int status_fd) {
        pid_t pid = fork();
        int status;

        if (pid < 0)
                return -errno;
        if (pid == 0) {
                pid = fork();
                if (pid == 0)
                        become_shim(u, s, status_fd);
                _exit(pid < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
        }
        /* it does nothing but fork */
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS ? 0 : -EAGAIN;
}

static int direct_start(void *backend, const struct unit_spec *s) {
        struct unit_direct *u = backend;
        struct direct_run *d;
        char why[GROUP_WHY_MAX];
        struct shim_file f;
        int fds[2], r;

        if (shim_file_read(u->shims_fd, s->name, &f) == 0 && f.alive)
                return -EEXIST;
        if (direct_group_is_needed(s->run) && direct_group_make(u->host, s->name, s->run, why) < 0) {
                log_warning("run %s: it cannot have a limit of memory: %s", s->name, why);
                return -EOPNOTSUPP;
        }
        d = direct_run_new(u, s->name);
        if (!d)
                return -ENOMEM;
        if (pipe2(fds, O_CLOEXEC) < 0)
                r = -errno;
        else {
                r = fork_shim(u, s, fds[1]);
                (void) close(fds[1]);
                d->status_fd = fds[0];
        }
        if (r == 0)
                r = sd_event_add_io(u->event, &d->started, d->status_fd, EPOLLIN, on_started, d);
        if (r < 0)
                direct_forget(u, s->name);
        else
                (void) sd_event_source_set_description(d->started, "run-start");
        return r < 0 ? r : 0;
}

/* --- The rest ------------------------------------------------------------------------------------------ */

static int tell_shim(struct unit_direct *u, const char *name, int number, int value) {
        const struct direct_run *d = direct_find(u, name);
        union sigval v = { .sival_int = value };
        siginfo_t info = { .si_signo = number, .si_code = SI_QUEUE };

        if (!d || d->pidfd < 0)
                return 0; /* it has ended */
        info.si_pid = getpid();
        info.si_uid = getuid();
        info.si_value = v;
        return syscall(SYS_pidfd_send_signal, d->pidfd, number, &info, 0) < 0 && errno != ESRCH ? -errno : 0;
}

static int direct_stop(void *backend, const char *name) {
        return tell_shim(backend, name, SIGTERM, 0);
}

static int direct_kill(void *backend, const char *name) {
        return tell_shim(backend, name, SIGUSR1, 0);
}

static int direct_signal(void *backend, const char *name, int number) {
        return tell_shim(backend, name, SIGUSR2, number);
}

static int direct_beside(void *backend, const struct unit_spec *s) {
        (void) backend;
        (void) s;
        return -EOPNOTSUPP; /* a command of its own needs a unit of its own: the signal is what there is */
}

static int on_answer(sd_event_source *s, void *userdata) {
        struct direct_run *d = userdata;
        struct unit_direct *u = d->owner;

        (void) s;
        d->answer = sd_event_source_disable_unref(d->answer);
        if (d->pidfd < 0 && watch_shim(d) < 0)
                tell_gone(d);
        else
                u->events->running(d->name, (uint32_t) d->command, "", u->userdata);
        return 0;
}

/* Answered later, as the bus does: whoever asks may be walking through its list. */
static int direct_query(void *backend, const char *name) {
        struct unit_direct *u = backend;
        struct direct_run *d = direct_find(u, name);
        int r;

        if (!d)
                d = direct_run_new(u, name);
        if (!d)
                return -ENOMEM;
        if (d->started || d->answer)
                return 0;
        r = sd_event_add_defer(u->event, &d->answer, on_answer, d);
        if (r >= 0)
                (void) sd_event_source_set_description(d->answer, "run-query");
        return r < 0 ? r : 0;
}

static int direct_pids(void *backend, const char *name, struct pid_list *ret) {
        struct unit_direct *u = backend;
        const struct direct_run *d = direct_find(u, name);

        if (!d || d->pidfd < 0)
                return -ENOENT;
        ret->n = shim_descendants(&u->machine, d->shim, ret->pids, ELEMENTSOF(ret->pids));
        ret->more = ret->n == ELEMENTSOF(ret->pids);
        return 0;
}

const struct unit_backend unit_direct_backend = {
        .start = direct_start,
        .stop = direct_stop,
        .kill = direct_kill,
        .signal = direct_signal,
        .beside = direct_beside,
        .query = direct_query,
        .forget = direct_forget,
        .pids = direct_pids,
};

static int on_connected(sd_event_source *s, void *userdata) {
        struct unit_direct *u = userdata;

        (void) s;
        u->connected = sd_event_source_disable_unref(u->connected);
        u->events->connected(u->userdata);
        return 0;
}

int unit_direct_new(sd_event *e, const struct host *h, const char *tool, const struct unit_events *events,
                    void *userdata, struct unit_direct **ret) {
        _cleanup_(unit_direct_freep) struct unit_direct *u = calloc(1, sizeof(*u));
        int r;

        if (!u)
                return -ENOMEM;
        u->machine = HOST_NULL;
        u->event = sd_event_ref(e);
        u->host = h;
        u->tool = tool;
        u->events = events;
        u->userdata = userdata;
        u->shims_fd = state_make_shims(h);
        r = u->shims_fd < 0 ? u->shims_fd : host_open(NULL, &u->machine);
        if (r == 0)
                r = sd_event_add_defer(e, &u->connected, on_connected, u);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(u->connected, "direct-connected");
        *ret = TAKE_PTR(u);
        return 0;
}

struct unit_direct *unit_direct_free(struct unit_direct *u) {
        if (!u)
                return NULL;
        while (u->runs) {
                struct direct_run *d = u->runs;

                u->runs = d->next;
                (void) direct_run_free(d);
        }
        u->connected = sd_event_source_disable_unref(u->connected);
        u->shims_fd = close_fd(u->shims_fd);
        host_close(&u->machine);
        sd_event_unref(u->event);
        free(u);
        return NULL;
}
