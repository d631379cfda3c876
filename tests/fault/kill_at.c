/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a daemon: SIGKILL at its $KILL_AT-th call that changes what is on the disk, $KILL_HOW
 * before it, behind it (after), or in the middle of a write (half), of which then only the first part is
 * done. $SLOW_USEC lets each fdatasync take longer, as network disks do, so that kills meet what is in
 * memory only. Children that it forks are left alone, but for $SLOW_CHILD_USEC.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum how { BEFORE, HALF, AFTER };

/* Read once, before main(): a preloaded library has no other place for it. */
static struct {
        atomic_long left; /* calls before the one; negative: none */
        enum how how;
        useconds_t slow, slow_child;
        pid_t pid;
} plan = { .left = -1 };

__attribute__((constructor)) static void read_plan(void) {
        const char *at = getenv("KILL_AT"), *how = getenv("KILL_HOW"), *slow = getenv("SLOW_USEC"),
                   *slow_child = getenv("SLOW_CHILD_USEC");

        plan.pid = getpid();
        if (how)
                plan.how = strcmp(how, "half") == 0 ? HALF : strcmp(how, "after") == 0 ? AFTER : BEFORE;
        if (slow)
                plan.slow = (useconds_t) atoi(slow);
        if (slow_child)
                plan.slow_child = (useconds_t) atoi(slow_child);
        if (at)
                plan.left = atol(at);
        (void) unsetenv("KILL_AT"); /* not for programs that this one runs */
}

static void die(void) {
        (void) kill(plan.pid, SIGKILL);
        for (;;)
                (void) pause();
}

/* Whether this is the call. BEFORE dies here. */
static bool is_it(void) {
        if (plan.left < 0 || getpid() != plan.pid || atomic_fetch_sub(&plan.left, 1) != 1)
                return false;
        if (plan.how == BEFORE)
                die();
        return true;
}

#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

/* A call that is done wholly or not at all. */
#define WHOLE(name, parameters, ...) \
        int name parameters; \
        int name parameters { \
                bool now = is_it(); \
                int r = REAL(name)(__VA_ARGS__), saved = errno; \
\
                if (now) \
                        die(); \
                errno = saved; \
                return r; \
        }

#define SYNC(name) \
        int name(int fd) { \
                bool now = is_it(); \
                useconds_t slow = getpid() == plan.pid ? plan.slow : plan.slow_child; \
                int r; \
\
                if (slow > 0) \
                        (void) usleep(slow); \
                r = REAL(name)(fd); \
                if (now) \
                        die(); \
                return r; \
        }

#define PWRITE(name, offset) \
        ssize_t name(int fd, const void *data, size_t n, offset at) { \
                bool now = is_it(); \
                ssize_t r; \
\
                if (now && plan.how == HALF) \
                        n = n * 5 / 9; \
                r = REAL(name)(fd, data, n, at); \
                if (now) \
                        die(); \
                return r; \
        }

SYNC(fdatasync)
SYNC(fsync)
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)
WHOLE(ftruncate, (int fd, off_t n), fd, n)
WHOLE(ftruncate64, (int fd, off64_t n), fd, n)
WHOLE(fallocate, (int fd, int mode, off_t at, off_t n), fd, mode, at, n)
WHOLE(posix_fallocate, (int fd, off_t at, off_t n), fd, at, n)
WHOLE(rename, (const char *from, const char *to), from, to)
WHOLE(renameat, (int a, const char *from, int b, const char *to), a, from, b, to)
WHOLE(unlink, (const char *name), name)
WHOLE(unlinkat, (int fd, const char *name, int flags), fd, name, flags)
