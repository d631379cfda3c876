/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include "grow.h"
#include "io.h"
#include "proc_pid.h"
#include "utf8.h"

#include <fcntl.h>
#include <sys/syscall.h> /* __NR_…: the kernel's own: Debian 11's C library knows fewer */

/* --- Files of the process ------------------------------------------------------------------------------ */

int process_read(const struct process *p, const char *name, char *buf, size_t size, size_t *ret_len) {
        _cleanup_close_ int fd = openat(p->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
        bool small = size <= 4096; /* those of /proc come in one piece: save the read that says "end" */
        ssize_t n;

        if (fd < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        n = small ? read(fd, buf, size - 1) : io_read_up_to(fd, buf, size - 1);
        if (n < 0)
                return small ? -errno : (int) n;
        buf[n] = '\0';
        if (ret_len)
                *ret_len = (size_t) n;
        return 0;
}

bool process_nested_pid(const char *status, pid_t *ret) {
        const char *p = strstr(status, "\nNSpid:");
        unsigned n = 0;

        if (!p)
                return false;
        for (p += 7; *p == '\t'; n++) {
                char *end;

                *ret = (pid_t) strtol(p + 1, &end, 10);
                p = end;
        }
        return n > 1;
}

int process_open(const struct host *h, pid_t pid, struct process *ret) {
        _cleanup_process_ struct process p = PROCESS_NULL;
        char path[32], status[4096];
        pid_t own;
        int r;

        (void) snprintf(path, sizeof(path), "/proc/%d", (int) pid);
        p.pid = pid;
        p.dir_fd = host_open_file(h, path, O_RDONLY | O_DIRECTORY);
        if (p.dir_fd < 0)
                return p.dir_fd == -ENOENT ? -ESRCH : p.dir_fd;
        r = process_read(&p, "status", status, sizeof(status), NULL);
        if (r < 0)
                return r;
        p.nested = process_nested_pid(status, &own);
        *ret = p;
        p.dir_fd = -1;
        return 0;
}

void process_close(struct process *p) {
        p->dir_fd = close_fd(p->dir_fd);
}

/* '?': what is there is no such line. */
static char stat_of(const char *text, struct proc_pid_stat *ret) {
        if (proc_pid_stat_parse(text, ret) < 0)
                *ret = (struct proc_pid_stat) { .name = "", .state = '?' };
        return ret->state;
}

uint64_t process_usec(uint64_t ticks) {
        return ticks * (USEC_PER_SEC / (uint64_t) MAX(sysconf(_SC_CLK_TCK), 1L));
}

void process_stat(const struct process *p, struct process_stat *ret) {
        static const unsigned fields[] = { 26, 27, 28, 47 };
        struct proc_pid_stat s;
        char text[1024];

        *ret = (struct process_stat) { 0 };
        if (process_read(p, "stat", text, sizeof(text), NULL) < 0)
                return;
        ret->state = stat_of(text, &s);
        ret->parent = (pid_t) s.field[4];
        ret->cpu_ticks = s.field[14] + s.field[15];
        ret->start_ticks = s.field[22];
        for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                ret->image[i] = s.field[fields[i]];
}

bool process_stat_same_image(const struct process_stat *a, const struct process_stat *b) {
        return memcmp(a->image, b->image, sizeof(a->image)) == 0;
}

char process_state(const struct process *p) {
        struct process_stat s;

        process_stat(p, &s);
        return s.state;
}

static void read_command(const struct process *p, char buf[static PROCESS_COMMAND_MAX]) {
        char line[4096];
        const char *name, *what = "";
        size_t len, at;

        if (process_read(p, "cmdline", line, sizeof(line), &len) < 0 || len == 0) {
                struct proc_pid_stat s;
                bool known = process_read(p, "stat", line, sizeof(line), NULL) >= 0 &&
                             proc_pid_stat_parse(line, &s) == 0;

                (void) snprintf(buf, PROCESS_COMMAND_MAX, "%s", known ? s.name : "?");
                return;
        }
        name = strrchr(line, '/');
        name = name ? name + 1 : line;
        for (at = strlen(line) + 1; at < len; at += strlen(line + at) + 1) {
                what = line + at;
                if (streq(what, "-m") && at + 3 < len) {
                        (void) snprintf(buf, PROCESS_COMMAND_MAX, "%.200s -m %.300s", name, line + at + 3);
                        return;
                }
                if (*what != '-' || streq(what, "-c"))
                        break;
                if (streq(what, "-X") || streq(what, "-W"))
                        at += strlen(what) + 1; /* its value is the next word */
                what = "";
        }
        (void) snprintf(buf, PROCESS_COMMAND_MAX, "%.200s%s%.300s", name, *what ? " " : "", what);
}

void process_command(const struct process *p, char buf[static PROCESS_COMMAND_MAX]) {
        read_command(p, buf);
        utf8_mend(buf);
}

/* --- System calls by name: those of x86-64 that a thread can wait in (asm/unistd_64.h) -------------- */

#define SYSCALL_NAME_MAX 32

#define CALLS(X) \
        X(accept) X(accept4) X(brk) X(clock_nanosleep) X(clone) X(close) X(connect) \
        X(copy_file_range) X(creat) X(dup) X(dup2) X(epoll_pwait) X(epoll_wait) X(execve) X(exit) \
        X(exit_group) X(fallocate) X(fcntl) X(fdatasync) X(flock) X(fork) X(fstat) X(fsync) \
        X(ftruncate) X(futex) X(getdents64) X(getrandom) X(getxattr) X(io_getevents) \
        X(io_uring_enter) X(ioctl) X(link) X(lseek) X(lstat) X(madvise) X(mkdir) X(mlock) X(mmap) \
        X(mount) X(mprotect) X(mremap) X(mq_timedreceive) X(mq_timedsend) X(msgrcv) X(msgsnd) \
        X(msync) X(munmap) X(nanosleep) X(newfstatat) X(open) X(openat) X(openat2) X(pause) \
        X(pipe2) X(poll) X(ppoll) X(pread64) X(preadv) X(preadv2) X(prctl) X(pselect6) X(ptrace) \
        X(pwrite64) X(pwritev) X(pwritev2) X(read) X(readlink) X(readv) X(recvfrom) X(recvmmsg) \
        X(recvmsg) X(rename) X(renameat2) X(restart_syscall) X(rmdir) X(rt_sigsuspend) \
        X(rt_sigtimedwait) X(sched_yield) X(select) X(semop) X(semtimedop) X(sendfile) X(sendmmsg) \
        X(sendmsg) X(sendto) X(shutdown) X(splice) X(stat) X(statfs) X(statx) X(symlink) X(sync) \
        X(sync_file_range) X(syncfs) X(tee) X(truncate) X(umount2) X(unlink) X(unlinkat) X(vfork) \
        X(vmsplice) X(wait4) X(waitid) X(write) X(writev)

/* "read"; of one that is not in the list its number, "system call 451". */
static const char *syscall_name(long number, char buf[static SYSCALL_NAME_MAX]) {
        switch (number) {
#define CASE(name) \
        case __NR_##name: \
                return #name;
                CALLS(CASE)
        }
        if (number == 449) /* futex_waitv, since Linux 5.16: newer than the headers that we build with */
                return "futex_waitv";
        (void) snprintf(buf, SYSCALL_NAME_MAX, "system call %ld", number);
        return buf;
}

/* --- Threads ------------------------------------------------------------------------------------------- */

struct task_call task_call_parse(const char *text) {
        struct task_call c = { 0 };
        char *at;

        c.number = strtol(text, &at, 10);
        if (at == text)
                return (struct task_call) { .number = CALL_RUNNING };
        for (size_t i = 0; c.number >= 0 && i < ELEMENTSOF(c.arguments); i++)
                c.arguments[i] = strtoull(at, &at, 16);
        c.sp = strtoull(at, &at, 16);
        c.pc = strtoull(at, &at, 16);
        if (c.number < 0)
                c.number = CALL_FAULT;
        return c;
}

enum { STAT, WCHAN, SYSCALL };

/* Of a thread; the descriptor stays open when keep is set. */
static int task_file(const struct process *p, struct task *t, unsigned which, bool keep, char *buf,
                     size_t size) {
        static const char *const names[TASK_FILES] = {
                [STAT] = "stat", [WCHAN] = "wchan", [SYSCALL] = "syscall"
        };
        _cleanup_close_ int opened = -1;
        char path[64];
        ssize_t n;
        int fd = t->files[which];

        if (fd < 0) {
                (void) snprintf(path, sizeof(path), "task/%d/%s", (int) t->tid, names[which]);
                fd = opened = openat(p->dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
        }
        if (fd < 0)
                return -errno;
        n = pread(fd, buf, size - 1, 0);
        if (n < 0)
                return -errno;
        buf[n] = '\0';
        if (keep && opened >= 0)
                t->files[which] = TAKE_FD(opened);
        return 0;
}

/* Returns how many threads its process has, or -errno when it has ended. */
static int task_read(const struct process *p, struct task *t, bool keep) {
        char path[64], text[4096], number[SYSCALL_NAME_MAX];
        struct proc_pid_stat s;
        int r = task_file(p, t, STAT, keep, text, sizeof(text));

        t->own = t->tid;
        t->wait[0] = t->call[0] = '\0';
        t->state = stat_of(r == 0 ? text : "", &s);
        (void) snprintf(t->name, sizeof(t->name), "%s", s.name);
        utf8_mend(t->name);
        t->cpu_ticks = s.field[14] + s.field[15];
        if (r == 0)
                r = (int) s.field[20];
        if (t->state != 'R' && task_file(p, t, WCHAN, keep, text, sizeof(text)) == 0 && !streq(text, "0"))
                (void) snprintf(t->wait, sizeof(t->wait), "%.63s", text);
        utf8_mend(t->wait);
        t->in = (struct task_call){ .number = t->state == 'R' ? CALL_RUNNING : CALL_UNKNOWN };
        if (t->state != 'R')
                t->in.error = task_file(p, t, SYSCALL, keep, text, sizeof(text));
        if (t->state != 'R' && t->in.error == 0)
                t->in = task_call_parse(text);
        if (t->in.number >= 0)
                (void) snprintf(t->call, sizeof(t->call), "%s", syscall_name(t->in.number, number));
        (void) snprintf(path, sizeof(path), "task/%d/status", (int) t->tid);
        if (p->nested && process_read(p, path, text, sizeof(text), NULL) >= 0)
                (void) process_nested_pid(text, &t->own);
        return r;
}

int process_task_cpu(const struct process *p, pid_t tid) {
        char path[64], text[1024];
        struct proc_pid_stat s;

        (void) snprintf(path, sizeof(path), "task/%d/stat", (int) tid);
        return process_read(p, path, text, sizeof(text), NULL) >= 0 && proc_pid_stat_parse(text, &s) == 0
                       ? (int) s.field[39]
                       : -1;
}

static int task_compare(const void *a, const void *b) {
        const struct task *x = a, *y = b;

        return COMPARE(x->own, y->own);
}

void task_list_clear(struct task_list *l) {
        for (size_t i = 0; i < l->n; i++)
                for (size_t k = 0; k < TASK_FILES; k++)
                        l->items[i].files[k] = close_fd(l->items[i].files[k]);
        free(l->items);
        *l = (struct task_list) { .keep = l->keep };
}

const struct task *task_list_find(const struct task_list *l, pid_t own) {
        size_t at = SORTED_PLACE(l->n, i, l->items[i].own < own);

        return own != 0 && at < l->n && l->items[at].own == own ? &l->items[at] : NULL;
}

int process_open_directory(const struct process *p, const char *name, DIR **ret) {
        int fd = openat(p->dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
            r = io_directory(fd < 0 ? -errno : fd, ret);

        return r == -ENOENT ? -ESRCH : r;
}

static int add_task(struct task_list *l, size_t *size, pid_t tid) {
        if (l->n == TASKS_MAX)
                return -E2BIG;
        if (grow(&l->items, size, l->n + 1, sizeof(*l->items)) < 0)
                return -ENOMEM;
        l->items[l->n] = (struct task) { .tid = tid };
        for (size_t k = 0; k < TASK_FILES; k++)
                l->items[l->n].files[k] = -1;
        l->n++;
        return 0;
}

/* The same threads as before: all are there, and the process has no others. */
static bool read_again(const struct process *p, struct task_list *l) {
        int threads = 0;

        for (size_t i = 0; i < l->n; i++) {
                threads = task_read(p, &l->items[i], true);
                if (threads < 0)
                        return false;
        }
        return (size_t) threads == l->n;
}

int process_tasks(const struct process *p, struct task_list *l) {
        _cleanup_closedir_ DIR *d = NULL;
        size_t size = 0;
        int r;

        if (l->n > 0 && l->n <= l->keep && !p->nested && read_again(p, l))
                return 0;
        task_list_clear(l);
        r = process_open_directory(p, "task", &d);
        for (const struct dirent *e; r == 0 && (e = readdir(d));)
                if (e->d_name[0] >= '0' && e->d_name[0] <= '9')
                        r = add_task(l, &size, (pid_t) strtol(e->d_name, NULL, 10));
        for (size_t i = 0; r == 0 && i < l->n; i++)
                (void) task_read(p, &l->items[i],
                                 l->n <= l->keep); /* one that has ended has no more to say */
        if (l->n > 0)
                qsort(l->items, l->n, sizeof(*l->items), task_compare);
        return r;
}

int process_children(const struct process *p, int (*visit)(pid_t pid, void *userdata), void *userdata) {
        _cleanup_closedir_ DIR *d = NULL;
        int r = process_open_directory(p, "task", &d);

        if (r < 0)
                return r;
        for (const struct dirent *e; (e = readdir(d));) {
                char path[300], text[65536], *end;

                (void) snprintf(path, sizeof(path), "task/%s/children", e->d_name);
                if (e->d_name[0] == '.' || process_read(p, path, text, sizeof(text), NULL) < 0)
                        continue;
                for (char *at = text;; at = end) {
                        long pid = strtol(at, &end, 10);

                        if (end == at)
                                break;
                        r = visit((pid_t) pid, userdata);
                        if (r != 0)
                                return r;
                }
        }
        return 0;
}
