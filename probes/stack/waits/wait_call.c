/* SPDX-License-Identifier: Apache-2.0 */
#include "wait_call.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "captured_waits.h"

/* Newer than the headers that we build with. */
#define NR_EPOLL_PWAIT2     441
#define NR_FUTEX_WAITV      449
#define NR_FUTEX_WAIT       455
#define FUTEX2_PRIVATE_FLAG 128u

/* Which argument is the descriptor (1 to 3), for writing with W. */
enum { A0 = 1, A1, A2, W = 8 };

static const struct {
        uint16_t number;
        uint8_t fd, fd_in;
} fd_calls[] = {
        { __NR_read, A0, 0 },
        { __NR_readv, A0, 0 },
        { __NR_pread64, A0, 0 },
        { __NR_preadv, A0, 0 },
        { __NR_preadv2, A0, 0 },
        { __NR_recvfrom, A0, 0 },
        { __NR_recvmsg, A0, 0 },
        { __NR_recvmmsg, A0, 0 },
        { __NR_accept, A0, 0 },
        { __NR_accept4, A0, 0 },
        { __NR_getdents64, A0, 0 },
        { __NR_lseek, A0, 0 },
        { __NR_fstat, A0, 0 },
        { __NR_close, A0, 0 },
        { __NR_mq_timedreceive, A0, 0 },
        { __NR_write, A0 | W, 0 },
        { __NR_writev, A0 | W, 0 },
        { __NR_pwrite64, A0 | W, 0 },
        { __NR_pwritev, A0 | W, 0 },
        { __NR_pwritev2, A0 | W, 0 },
        { __NR_sendto, A0 | W, 0 },
        { __NR_sendmsg, A0 | W, 0 },
        { __NR_sendmmsg, A0 | W, 0 },
        { __NR_connect, A0 | W, 0 },
        { __NR_fsync, A0 | W, 0 },
        { __NR_fdatasync, A0 | W, 0 },
        { __NR_sync_file_range, A0 | W, 0 },
        { __NR_syncfs, A0 | W, 0 },
        { __NR_ftruncate, A0 | W, 0 },
        { __NR_fallocate, A0 | W, 0 },
        { __NR_ioctl, A0, 0 },
        { __NR_fcntl, A0, 0 },
        { __NR_mq_timedsend, A0 | W, 0 },
        { __NR_sendfile, A0 | W, A1 },
        { __NR_splice, A2 | W, A0 },
        { __NR_tee, A1 | W, A0 },
        { __NR_copy_file_range, A2 | W, A0 },
};

static const struct {
        uint16_t number;
        uint8_t path, directory; /* arguments from 1; 0: none */
} path_calls[] = {
        { __NR_open, 1, 0 },       { __NR_openat, 2, 1 },     { 437 /* openat2 */, 2, 1 },
        { __NR_creat, 1, 0 },      { __NR_stat, 1, 0 },       { __NR_lstat, 1, 0 },
        { __NR_newfstatat, 2, 1 }, { __NR_statx, 2, 1 },      { __NR_statfs, 1, 0 },
        { __NR_access, 1, 0 },     { __NR_faccessat, 2, 1 },  { __NR_mkdir, 1, 0 },
        { __NR_mkdirat, 2, 1 },    { __NR_rmdir, 1, 0 },      { __NR_rename, 1, 0 },
        { __NR_renameat2, 2, 1 },  { __NR_unlink, 1, 0 },     { __NR_unlinkat, 2, 1 },
        { __NR_readlink, 1, 0 },   { __NR_readlinkat, 2, 1 }, { __NR_link, 1, 0 },
        { __NR_truncate, 1, 0 },   { __NR_getxattr, 1, 0 },   { __NR_execve, 1, 0 },
        { __NR_chdir, 1, 0 },      { __NR_umount2, 1, 0 },
};

static bool call_of_fd(const struct task_call *c, struct call_wait *w) {
        for (size_t i = 0; i < ELEMENTSOF(fd_calls); i++) {
                uint8_t fd = fd_calls[i].fd;

                if (fd_calls[i].number != c->number)
                        continue;
                w->kind = CALL_FD;
                w->writes = fd & W;
                w->fd = (uint32_t) c->arguments[(fd & ~W) - 1];
                if (fd_calls[i].fd_in)
                        w->fd_in = (uint32_t) c->arguments[fd_calls[i].fd_in - 1];
                w->limited = c->number == __NR_recvmmsg && c->arguments[4] != 0;
                if (c->number == __NR_fcntl &&
                    (c->arguments[1] == F_SETLKW || c->arguments[1] == 38 /* F_OFD_SETLKW */))
                        w->kind = CALL_LOCKS_FILE;
                return true;
        }
        return false;
}

static bool call_of_path(const struct task_call *c, struct call_wait *w) {
        for (size_t i = 0; i < ELEMENTSOF(path_calls); i++)
                if (path_calls[i].number == c->number) {
                        w->kind = CALL_PATH;
                        w->address = c->arguments[path_calls[i].path - 1];
                        if (path_calls[i].directory)
                                w->fd = (uint32_t) c->arguments[path_calls[i].directory - 1];
                        return true;
                }
        return false;
}

/* A time limit in milliseconds, of which a negative one is none. */
static bool milliseconds_limit(uint64_t v) {
        return (int32_t) v >= 0;
}

static bool call_of_many(const struct task_call *c, struct call_wait *w) {
        const uint64_t *a = c->arguments;

        switch (c->number) {
        case __NR_poll:
        case __NR_ppoll:
                w->kind = CALL_POLL;
                w->address = a[0];
                w->n = a[1];
                w->limited = c->number == __NR_poll ? milliseconds_limit(a[2]) : a[2] != 0;
                return true;
        case __NR_select:
        case __NR_pselect6:
                w->kind = CALL_SELECT;
                w->n = a[0];
                w->address = a[1];
                w->write_set = a[2];
                w->limited = a[4] != 0;
                return true;
        case __NR_epoll_wait:
        case __NR_epoll_pwait:
        case NR_EPOLL_PWAIT2:
                w->kind = CALL_EPOLL;
                w->fd = (uint32_t) a[0];
                w->limited = c->number == NR_EPOLL_PWAIT2 ? a[3] != 0 : milliseconds_limit(a[3]);
                return true;
        case __NR_io_uring_enter:
                w->kind = CALL_IO;
                w->fd = (uint32_t) a[0];
                return true;
        case __NR_io_getevents:
                w->kind = CALL_IO;
                w->limited = a[4] != 0;
                return true;
        }
        return false;
}

static bool call_of_futex(const struct task_call *c, struct call_wait *w) {
        const uint64_t *a = c->arguments;

        switch (c->number) {
        case __NR_futex:
                w->kind = CALL_FUTEX;
                w->address = a[0];
                w->operation = (unsigned) a[1] & (unsigned) FUTEX_CMD_MASK;
                w->shared = !(a[1] & FUTEX_PRIVATE_FLAG);
                w->value = (uint32_t) a[2];
                w->limited = a[3] != 0;
                return true;
        case NR_FUTEX_WAIT:
                w->kind = CALL_FUTEX;
                w->address = a[0];
                w->operation = FUTEX_WAIT;
                w->value = (uint32_t) a[1];
                w->shared = !(a[3] & FUTEX2_PRIVATE_FLAG);
                w->limited = a[4] != 0;
                return true;
        case NR_FUTEX_WAITV:
                w->kind = CALL_FUTEXES;
                w->address = a[0];
                w->n = a[1];
                w->limited = a[3] != 0;
                return true;
        }
        return false;
}

static bool call_of_rest(const struct task_call *c, struct call_wait *w) {
        const uint64_t *a = c->arguments;

        switch (c->number) {
        case __NR_wait4:
                w->kind = CALL_CHILD;
                w->child = MAX((int32_t) a[0], 0);
                return true;
        case __NR_waitid:
                w->kind = CALL_CHILD;
                w->child = a[0] == P_PID ? (int32_t) a[1] : 0;
                if (a[0] == 3 /* P_PIDFD */)
                        w->fd = (uint32_t) a[1];
                return true;
        case __NR_vfork:
        case __NR_clone:
                w->kind = CALL_CHILD;
                return true;
        case __NR_nanosleep:
        case __NR_clock_nanosleep:
                w->kind = CALL_SLEEP;
                w->limited = true;
                return true;
        case __NR_pause:
        case __NR_rt_sigsuspend:
        case __NR_rt_sigtimedwait:
                w->kind = CALL_SIGNAL;
                w->limited = c->number == __NR_rt_sigtimedwait && a[2] != 0;
                return true;
        case __NR_flock:
                w->kind = CALL_LOCKS_FILE;
                w->fd = (uint32_t) a[0];
                return true;
        }
        return false;
}

/* A call that a signal interrupted is restarted without its number; its arguments are still there. */
static void call_of_restarted(struct task_call *c, const char *wchan) {
        if (strstr(wchan, "nanosleep"))
                c->number = __NR_nanosleep;
        else if (strstr(wchan, "futex"))
                c->number = __NR_futex;
        else if (strstr(wchan, "poll") || strstr(wchan, "do_sys_poll"))
                c->number = __NR_poll;
}

void call_wait_of(const struct task_call *c, const char *wchan, struct call_wait *ret) {
        struct call_wait w = { .fd = WAIT_FD_NONE, .fd_in = WAIT_FD_NONE };
        struct task_call call = *c;

        if (call.number == __NR_restart_syscall)
                call_of_restarted(&call, wchan);
        (void) (call_of_fd(&call, &w) || call_of_many(&call, &w) || call_of_futex(&call, &w) ||
                call_of_path(&call, &w) || call_of_rest(&call, &w)); /* else CALL_OTHER */
        *ret = w;
}

bool call_found_nothing(const struct task_call *c, int64_t result) {
        struct call_wait w;

        call_wait_of(c, "", &w);
        if (w.kind == CALL_FD)
                return result == -EAGAIN;
        return result == 0 && (w.kind == CALL_POLL || w.kind == CALL_SELECT || w.kind == CALL_EPOLL);
}
