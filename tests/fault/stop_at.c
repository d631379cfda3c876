/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program and writes down every system call of it that changes something below a directory, with what
 * was written; kills it with SIGKILL before or after the one with a given number.
 *
 *     stop_at DIR LOG KILL before|after COMMAND…      KILL 0: never
 *
 * A line of the log a call, from 1: "N NAME PATH RESULT …" with PATH relative to DIR ("." itself); "say
 * TEXT" for what goes to standard output, which is not numbered. The call that was stopped before has "-"
 * for its result. Threads are followed, children are not. Ends with the program's code, or 137 when it was
 * killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h>

#define THREADS_MAX 64
#define DATA_MAX (2 * 1024 * 1024)

struct thread {
        pid_t tid;
        bool inside; /* of a call that is followed */
        struct __ptrace_syscall_info entry;
        char path[PATH_MAX], other[PATH_MAX]; /* relative; other: of a rename */
        uint64_t offset;
};

struct run {
        const char *dir;
        FILE *log;
        unsigned long kill_at, n;
        bool before, killed;
        pid_t pid;
        struct thread threads[THREADS_MAX];
        uint8_t data[DATA_MAX];
};

static _Noreturn void die(const char *what) {
        perror(what);
        exit(99);
}

static struct thread *thread_of(struct run *r, pid_t tid) {
        struct thread *empty = NULL;

        for (size_t i = 0; i < THREADS_MAX; i++) {
                if (r->threads[i].tid == tid)
                        return &r->threads[i];
                if (r->threads[i].tid == 0 && !empty)
                        empty = &r->threads[i];
        }
        if (!empty)
                die("too many threads");
        *empty = (struct thread) { .tid = tid };
        return empty;
}

/* Whether an absolute path is below the directory; relative to it then. */
static bool below(const struct run *r, const char *path, char *ret) {
        size_t n = strlen(r->dir);

        if (strncmp(path, r->dir, n) != 0 || (path[n] != '/' && path[n] != '\0'))
                return false;
        (void) snprintf(ret, PATH_MAX, "%s", path[n] ? path + n + 1 : ".");
        return true;
}

static bool path_of_fd(const struct run *r, pid_t tid, int fd, char *ret) {
        char link[64], path[PATH_MAX];
        ssize_t n;

        (void) snprintf(link, sizeof(link), "/proc/%d/fd/%d", tid, fd);
        n = readlink(link, path, sizeof(path) - 1);
        if (n < 0)
                return false;
        path[n] = '\0';
        return below(r, path, ret);
}

static bool text_of(pid_t tid, uint64_t address, char *ret) {
        struct iovec local = { ret, PATH_MAX - 1 }, remote = { (void *) (uintptr_t) address, 1 };
        size_t n = 0;

        for (; n < PATH_MAX - 1; n++) { /* to the end of a page at most, byte by byte: paths are short */
                local = (struct iovec) { ret + n, 1 };
                remote.iov_base = (void *) (uintptr_t) (address + n);
                if (process_vm_readv(tid, &local, 1, &remote, 1, 0) != 1)
                        return false;
                if (ret[n] == '\0')
                        return true;
        }
        return false;
}

/* A path as the …at() calls have it. */
static bool path_at(const struct run *r, pid_t tid, int dir_fd, uint64_t address, char *ret) {
        char name[PATH_MAX], dir[PATH_MAX];

        if (!text_of(tid, address, name))
                return false;
        if (name[0] == '/')
                return below(r, name, ret);
        if (dir_fd == AT_FDCWD || !path_of_fd(r, tid, dir_fd, dir))
                return false;
        if (strcmp(dir, ".") == 0)
                (void) snprintf(ret, PATH_MAX, "%s", name);
        else
                (void) snprintf(ret, PATH_MAX, "%.2000s/%.2000s", dir, name);
        return true;
}

static uint64_t position(pid_t tid, int fd) {
        char path[64];
        unsigned long long at = 0;
        FILE *f;

        (void) snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", tid, fd);
        f = fopen(path, "re");
        if (!f || fscanf(f, "pos: %llu", &at) != 1)
                at = 0;
        if (f)
                (void) fclose(f);
        return at;
}

/* Whether the call changes something below the directory: fills paths and offset. */
static bool wanted(const struct run *r, struct thread *t) {
        const uint64_t *a = t->entry.entry.args;
        pid_t tid = t->tid;

        switch (t->entry.entry.nr) {
        case SYS_openat:
                return (a[2] & (O_CREAT | O_TRUNC)) && path_at(r, tid, (int) a[0], a[1], t->path);
        case SYS_open:
                return (a[1] & (O_CREAT | O_TRUNC)) && path_at(r, tid, AT_FDCWD, a[0], t->path);
        case SYS_mkdir:
                return path_at(r, tid, AT_FDCWD, a[0], t->path);
        case SYS_write:
                t->offset = position(tid, (int) a[0]);
                return path_of_fd(r, tid, (int) a[0], t->path);
        case SYS_pwrite64:
                t->offset = a[3];
                return path_of_fd(r, tid, (int) a[0], t->path);
        case SYS_fallocate:
        case SYS_ftruncate:
        case SYS_fsync:
        case SYS_fdatasync:
                return path_of_fd(r, tid, (int) a[0], t->path);
        case SYS_unlinkat:
                return path_at(r, tid, (int) a[0], a[1], t->path);
        case SYS_unlink:
                return path_at(r, tid, AT_FDCWD, a[0], t->path);
        case SYS_renameat:
        case SYS_renameat2:
                return path_at(r, tid, (int) a[0], a[1], t->path) &&
                       path_at(r, tid, (int) a[2], a[3], t->other);
        case SYS_rename:
                return path_at(r, tid, AT_FDCWD, a[0], t->path) && path_at(r, tid, AT_FDCWD, a[1], t->other);
        default:
                return false;
        }
}

static void put_data(struct run *r, pid_t tid, uint64_t address, size_t len) {
        struct iovec local = { r->data, len }, remote = { (void *) (uintptr_t) address, len };

        if (len > DATA_MAX || process_vm_readv(tid, &local, 1, &remote, 1, 0) != (ssize_t) len)
                die("what it writes cannot be read");
        for (size_t i = 0; i < len; i++)
                (void) fprintf(r->log, "%02x", r->data[i]);
}

/* result is NULL for a call that was stopped before. */
static void put_call(struct run *r, const struct thread *t, const int64_t *result) {
        const uint64_t *a = t->entry.entry.args;
        char text[32] = "-";

        if (result)
                (void) snprintf(text, sizeof(text), "%" PRId64, *result);
        (void) fprintf(r->log, "%lu ", r->n);
        switch (t->entry.entry.nr) {
        case SYS_openat:
        case SYS_open:
                (void) fprintf(r->log, "open %s %s %d", t->path, text,
                               (a[t->entry.entry.nr == SYS_openat ? 2 : 1] & O_TRUNC) != 0);
                break;
        case SYS_mkdir:
                (void) fprintf(r->log, "mkdir %s %s", t->path, text);
                break;
        case SYS_write:
        case SYS_pwrite64:
                (void) fprintf(r->log, "write %s %s %" PRIu64 " ", t->path, text, t->offset);
                put_data(r, t->tid, a[1], (size_t) a[2]);
                break;
        case SYS_fallocate:
                (void) fprintf(r->log, "allocate %s %s %" PRIu64, t->path, text, a[2] + a[3]);
                break;
        case SYS_ftruncate:
                (void) fprintf(r->log, "truncate %s %s %" PRIu64, t->path, text, a[1]);
                break;
        case SYS_fsync:
        case SYS_fdatasync:
                (void) fprintf(r->log, "sync %s %s", t->path, text);
                break;
        case SYS_unlink:
        case SYS_unlinkat:
                (void) fprintf(r->log, "unlink %s %s", t->path, text);
                break;
        default:
                (void) fprintf(r->log, "rename %s %s %s", t->path, text, t->other);
                break;
        }
        (void) fprintf(r->log, "\n");
}

static void put_said(struct run *r, const struct thread *t) {
        const uint64_t *a = t->entry.entry.args;
        struct iovec local = { r->data, a[2] }, remote = { (void *) (uintptr_t) a[1], a[2] };

        if (a[2] > 4096 || process_vm_readv(t->tid, &local, 1, &remote, 1, 0) != (ssize_t) a[2])
                die("what it says cannot be read");
        (void) fprintf(r->log, "say %.*s%s", (int) a[2], (const char *) r->data,
                       a[2] > 0 && r->data[a[2] - 1] == '\n' ? "" : "\n");
}

static void on_entry(struct run *r, struct thread *t) {
        if (t->entry.entry.nr == SYS_write && t->entry.entry.args[0] == STDOUT_FILENO)
                put_said(r, t);
        t->inside = wanted(r, t);
        if (!t->inside || ++r->n != r->kill_at || !r->before)
                return;
        r->killed = true;
        put_call(r, t, NULL);
        (void) kill(r->pid, SIGKILL);
}

static void on_exit_of_call(struct run *r, struct thread *t, int64_t result) {
        if (!t->inside)
                return;
        t->inside = false;
        put_call(r, t, &result);
        if (r->kill_at > 0 && r->n >= r->kill_at && !r->killed) {
                r->killed = true;
                (void) kill(r->pid, SIGKILL);
        }
}

static void on_syscall(struct run *r, struct thread *t) {
        struct __ptrace_syscall_info info;

        if (ptrace(PTRACE_GET_SYSCALL_INFO, t->tid, sizeof(info), &info) < 0)
                return; /* killed */
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
                t->entry = info;
                on_entry(r, t);
        } else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
                on_exit_of_call(r, t, info.exit.rval);
}

/* Follows until the program is gone; returns its code. */
static int follow(struct run *r) {
        for (;;) {
                int status, deliver = 0;
                pid_t tid = waitpid(-1, &status, __WALL);

                if (tid < 0)
                        die("waitpid");
                if (WIFEXITED(status) || WIFSIGNALED(status)) {
                        if (tid != r->pid) {
                                thread_of(r, tid)->tid = 0;
                                continue;
                        }
                        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
                }
                if (WSTOPSIG(status) == (SIGTRAP | 0x80))
                        on_syscall(r, thread_of(r, tid));
                else if (status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP)
                        deliver = WSTOPSIG(status);
                if (ptrace(PTRACE_SYSCALL, tid, 0, deliver) < 0 && errno != ESRCH)
                        die("PTRACE_SYSCALL");
        }
}

int main(int argc, char **argv) {
        static struct run r;
        int status;

        if (argc < 6) {
                (void) fprintf(stderr, "Usage: stop_at DIR LOG KILL before|after COMMAND...\n");
                return 64;
        }
        r.dir = argv[1];
        r.log = fopen(argv[2], "we");
        r.kill_at = strtoul(argv[3], NULL, 10);
        r.before = strcmp(argv[4], "before") == 0;
        if (!r.log)
                die(argv[2]);
        r.pid = fork();
        if (r.pid < 0)
                die("fork");
        if (r.pid == 0) {
                if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0 || raise(SIGSTOP) != 0)
                        _exit(99);
                (void) execv(argv[5], argv + 5);
                _exit(98);
        }
        if (waitpid(r.pid, &status, 0) != r.pid ||
            ptrace(PTRACE_SETOPTIONS, r.pid, 0,
                   PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
                   PTRACE_O_EXITKILL) < 0 ||
            ptrace(PTRACE_SYSCALL, r.pid, 0, 0) < 0)
                die("ptrace");
        status = follow(&r);
        if (fclose(r.log) != 0)
                die(argv[2]);
        return status;
}
