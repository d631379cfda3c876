/* SPDX-License-Identifier: Apache-2.0 */
#include "syscall_name.h"

#include <sys/syscall.h> /* __NR_…: the kernel's own: Debian 11's C library knows fewer */

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

const char *syscall_name(long number, char buf[static SYSCALL_NAME_MAX]) {
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
