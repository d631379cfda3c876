/* SPDX-License-Identifier: Apache-2.0 */
#include "shim.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "direct_group.h"
#include "handover.h"
#include "log.h"
#include "run_log.h"
#include "secret.h"
#include "state.h"

#define DESCENDANTS_MAX 4096
#define LOOK_AGAIN                                                                                          \
        200 /* ms, while it ends what the command has left behind: orphans of ours we are told of, others   \
               not */
#define TRIM_MIN USEC_PER_SEC
#define TRIM_MAX (60 * USEC_PER_SEC)
#define KILL_TIMEOUT (60 * USEC_PER_SEC) /* as run_table.h's FREE_TIMEOUT */

struct shim {
        const struct host *host;
        struct host
                machine; /* whose processes are looked at: those that can be signalled, whatever the root */
        struct job *job;
        const char *name;
        int signals, lock, log;
        usec_t trim_at, trim_pause; /* boot clock */
        uint64_t log_bytes; /* at the last look */
        pid_t command;
        bool exited, stopping, killing;
        int status;
        usec_t deadline; /* of the grace, then of KILL; 0: none */
};

/* --- The command's process ----------------------------------------------------------------------------- */

static void set_limit(__rlimit_resource_t what, uint64_t value) {
        struct rlimit l = { .rlim_cur = value == SPEC_UNLIMITED ? RLIM_INFINITY : value };

        l.rlim_max = l.rlim_cur;
        (void) setrlimit(what, &l); /* raising a limit takes root; without it the run has what we have */
}

static void place(const struct run_spec *s) {
        struct number_set set;

        /* the bits are those of cpu_set_t and of a node mask: lowest first, in a machine of little endian */
        if (number_set_parse(s->cpus, &set) == 0 && set.bytes > 0)
                (void) sched_setaffinity(0, sizeof(set.bits), (const cpu_set_t *) (const void *) set.bits);
        if (number_set_parse(s->numa, &set) == 0 && set.bytes > 0)
                (void) syscall(SYS_set_mempolicy, 2 /* MPOL_BIND */, set.bits, set.bytes * 8 + 1);
}

static int become(const struct job *j) {
        struct passwd *pw;

        if (geteuid() != 0 || j->uid == 0)
                return j->uid == geteuid() ? 0 : -EPERM;
        pw = getpwuid(j->uid); /* this process has one thread, and ends here */
        if (!pw)
                return -ESRCH;
        if (initgroups(pw->pw_name, pw->pw_gid) < 0 || setgid(pw->pw_gid) < 0 || setuid(j->uid) < 0)
                return -errno;
        return 0;
}

/* What systemd sets for a service of a user's. */
static void set_environment(const struct job *j) {
        const struct passwd *pw = getpwuid(j->uid);

        (void) clearenv();
        (void) setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
        (void) setenv("LANG", "C.UTF-8", 1);
        if (!pw)
                return;
        (void) setenv("HOME", pw->pw_dir, 1);
        (void) setenv("USER", pw->pw_name, 1);
        (void) setenv("LOGNAME", pw->pw_name, 1);
        (void) setenv("SHELL", pw->pw_shell, 1);
}

__attribute__((noreturn)) static void run_command(const struct shim *s) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC), r;
        sigset_t none;

        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        (void) fcntl(SHIM_STATUS_FD, F_SETFD, FD_CLOEXEC);
        if (null >= 0)
                (void) dup2(null, STDIN_FILENO);
        if (s->log >= 0 && dup2(s->log, STDOUT_FILENO) >= 0)
                (void) dup2(s->log, STDERR_FILENO);
        set_environment(s->job);
        r = secrets_enter_file(s->host, s->name);
        if (r >= 0 && direct_group_is_needed(&s->job->spec))
                r = direct_group_enter(s->host, s->name);
        set_limit(RLIMIT_MEMLOCK, s->job->spec.memlock);
        set_limit(RLIMIT_NOFILE, s->job->spec.nofile);
        set_limit(RLIMIT_CORE, s->job->spec.keep_core ? SPEC_UNLIMITED : 0);
        place(&s->job->spec);
        if (r >= 0)
                r = become(s->job);
        if (r < 0) {
                (void) log_error_errno(r, "run %s: it cannot be started as %s: %m", s->name, s->job->user);
                _exit(HANDOVER_EXIT_NOT_STARTED);
        }
        if (s->job->spec.remote)
                (void) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        _exit(handover_main(s->host, s->name));
}

/* --- Its shim ------------------------------------------------------------------------------------------ */

static void signal_all(const struct shim *s, int number) {
        _cleanup_free_ pid_t *pids = calloc(DESCENDANTS_MAX, sizeof(*pids));
        size_t n = pids ? shim_descendants(&s->machine, getpid(), pids, DESCENDANTS_MAX) : 0;

        for (size_t i = 0; i < n; i++)
                (void) kill(pids[i],
                            number); /* ours until we have waited for them, or gone, and then nobody's */
}

static void stop(struct shim *s, int number, usec_t timeout) {
        s->killing = number == SIGKILL;
        s->deadline = host_now(s->host) + timeout;
        signal_all(s, number);
}

static void on_signal(struct shim *s, const struct signalfd_siginfo *i) {
        if (i->ssi_signo == SIGTERM && !s->stopping) {
                s->stopping = true;
                stop(s, SIGTERM, s->job->spec.grace);
        } else if (i->ssi_signo == SIGUSR1) {
                s->stopping = true;
                stop(s, SIGKILL, KILL_TIMEOUT);
        } else if (i->ssi_signo == SIGUSR2 && !s->exited)
                (void) kill(s->command, i->ssi_int);
}

/* Returns whether anything of the run is left. */
static bool reap(struct shim *s) {
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                if (pid == s->command) {
                        s->exited = true;
                        s->status = status;
                        if (!s->stopping) /* what it has left behind goes with it */
                                stop(s, SIGTERM, s->job->spec.grace);
                }
        return pid == 0;
}

/* What the run prints is not told to us: it is looked at the more often the more it prints, so that it can
 * only be a little above its size. */
static void trim(struct shim *s) {
        usec_t now = host_now(s->host);
        struct stat st;
        uint64_t before = s->log_bytes;

        if (s->log < 0 || now < s->trim_at)
                return;
        if (run_log_trim(s->log, s->job->spec.log_size) == -EOPNOTSUPP) {
                log_warning("run %s: its log cannot be kept at %" PRIu64
                            " MiB: its file system makes no holes",
                            s->name, s->job->spec.log_size >> 20);
                s->log = close_fd(s->log);
                return;
        }
        if (fstat(s->log, &st) == 0)
                s->log_bytes = (uint64_t) st.st_size;
        s->trim_pause =
                s->log_bytes - before > s->job->spec.log_size / 8 ? s->trim_pause / 4 : s->trim_pause * 2;
        s->trim_pause = MIN(MAX(s->trim_pause, TRIM_MIN), TRIM_MAX);
        s->trim_at = now + s->trim_pause;
}

static int wait_of(const struct shim *s) {
        usec_t now = host_now(s->host);

        if (s->deadline)
                return LOOK_AGAIN;
        return s->log < 0 ? -1 : s->trim_at > now ? (int) ((s->trim_at - now) / USEC_PER_MSEC) + 1 : 0;
}

/* Until nothing is left, or KILL has not helped. */
static void supervise(struct shim *s) {
        while (reap(s)) {
                struct pollfd p = { .fd = s->signals, .events = POLLIN };
                struct signalfd_siginfo info;

                if (s->deadline && host_now(s->host) >= s->deadline) {
                        if (s->killing)
                                return; /* a process in state D */
                        stop(s, SIGKILL, KILL_TIMEOUT);
                } else if (s->killing)
                        signal_all(s, SIGKILL); /* what was forked meanwhile */
                trim(s);
                (void) poll(&p, 1, wait_of(s));
                while (read(s->signals, &info, sizeof(info)) == sizeof(info))
                        on_signal(s, &info);
        }
}

static int take_signals(struct shim *s) {
        sigset_t mask;

        (void) sigemptyset(&mask);
        (void) sigaddset(&mask, SIGTERM);
        (void) sigaddset(&mask, SIGUSR1);
        (void) sigaddset(&mask, SIGUSR2);
        (void) sigaddset(&mask, SIGCHLD);
        if (sigprocmask(SIG_SETMASK, &mask, NULL) < 0)
                return -errno;
        s->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
        return s->signals < 0 ? -errno : 0;
}

/* Two shims of one name: the second one finds the lock held. */
static int take_lock(struct shim *s) {
        _cleanup_close_ int dir = state_make_shims(s->host);

        if (dir < 0)
                return dir;
        s->lock = openat(dir, s->name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (s->lock < 0)
                return -errno;
        return flock(s->lock, LOCK_EX | LOCK_NB) < 0 ? -errno : ftruncate(s->lock, 0) < 0 ? -errno : 0;
}

static int say_who(const struct shim *s, const char *id) {
        char text[96];
        int n = snprintf(text, sizeof(text), "%d %d %s\n", (int) getpid(), (int) s->command, id);

        return pwrite(s->lock, text, (size_t) n, 0) == n ? 0 : -EIO;
}

static int start(struct shim *s, const char *id) {
        _cleanup_close_ int jobs = -1;
        int r;

        jobs = state_open(s->host, STATE_JOBS);
        r = jobs < 0 ? jobs : job_read(jobs, s->name, &s->job);
        if (r == 0 && !streq(s->job->id, id))
                r = -ESTALE;
        if (r == 0)
                r = take_lock(s);
        if (r == 0)
                r = take_signals(s);
        if (r < 0)
                return r;
        if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                return -errno;
        run_logs_forget(s->host, host_now_real(s->host) - MIN(s->job->spec.log_age, host_now_real(s->host)));
        s->log = run_log_open(s->host, s->name, s->job->uid);
        if (s->log < 0)
                (void) log_warning_errno(s->log, "run %s: its lines are lost, they cannot be written: %m",
                                         s->name);
        s->command = fork();
        if (s->command == 0)
                run_command(s);
        r = s->command < 0 ? -errno : say_who(s, id);
        (void) close(SHIM_STATUS_FD);
        return r;
}

static int write_end(const struct shim *s, const char *id) {
        struct exit_record record = { .real = host_now_real(s->host), .boot = host_now(s->host) };
        _cleanup_close_ int exits = state_open(s->host, STATE_EXITS);

        (void) snprintf(record.id, sizeof(record.id), "%s", id);
        (void) host_boot_id(s->host, record.boot_id);
        shim_record(s->status, s->stopping, &record);
        if (direct_group_is_needed(&s->job->spec))
                record.oom_kills = direct_group_end(s->host, s->name);
        return exits < 0 ? exits : exit_record_write(exits, s->name, &record);
}

int shim_main(const struct host *h, const char *name, const char *id) {
        struct shim s = {
                .host = h, .machine = HOST_NULL, .name = name, .signals = -1, .lock = -1, .log = -1
        };
        int r;

        if (!job_name_is_valid(name))
                return EXIT_FAILURE;
        (void) setsid();
        r = host_open(NULL, &s.machine);
        if (r == 0)
                r = start(&s, id);
        if (r < 0) {
                (void) log_error_errno(r, "run %s: it cannot be started: %m", name);
                return EXIT_FAILURE;
        }
        supervise(&s);
        /* one that KILL did not end leaves no record: launchd says what is left of it */
        r = s.exited ? write_end(&s, id) : 0;
        if (r < 0)
                (void) log_error_errno(r, "run %s: its end could not be recorded: %m", name);
        s.job = job_free(s.job);
        host_close(&s.machine);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
