/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD: lets the n-th allocation, open, send or write of a program fail, counted from main() on.
 * FAIL_WHAT=alloc|open|send|write FAIL_NTH=N, from 1; a byte goes to the descriptor FAIL_FD when it happens.
 * The errors are what an exhausted machine answers: ENOMEM, EMFILE, ENOBUFS, ENOSPC. What the C library does
 * inside itself is met for allocations only. Not for threads.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

typedef int (*main_t)(int, char **, char **);
typedef int (*start_t)(main_t, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
int __libc_start_main(main_t m, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end);

static char what; /* first letter of FAIL_WHAT; 0: before main(), nothing is counted */
static long left;

static void *next(const char *name) {
        return dlsym(RTLD_NEXT, name);
}

static long raw(long number, long a, long b, long c, long d, long e, long f) {
        static long (*real)(long, ...);

        if (!real)
                real = (long (*)(long, ...)) next("syscall");
        return real(number, a, b, c, d, e, f);
}

static bool fails(char kind, int error) {
        const char *fd;

        if (kind != what || --left != 0)
                return false;
        fd = getenv("FAIL_FD");
        if (fd)
                (void) raw(SYS_write, atoi(fd), (long) "!", 1, 0, 0, 0);
        errno = error;
        return true;
}

/* --- Allocations -------------------------------------------------------------------------------------- */

void *malloc(size_t size) {
        return fails('a', ENOMEM) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
        return fails('a', ENOMEM) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size) {
        return fails('a', ENOMEM) ? NULL : __libc_realloc(p, size);
}

void *reallocarray(void *p, size_t n, size_t size) {
        size_t all;

        if (__builtin_mul_overflow(n, size, &all)) {
                errno = ENOMEM;
                return NULL;
        }
        return realloc(p, all);
}

/* --- Opens -------------------------------------------------------------------------------------------- */

static int do_openat(int dir, const char *path, int flags, va_list ap) {
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;

        return fails('o', EMFILE) ? -1 : (int) raw(SYS_openat, dir, (long) path, flags, (long) mode, 0, 0);
}

#define OPENAT(name) \
        int name(int dir, const char *path, int flags, ...) { \
                va_list ap; \
                int fd; \
                va_start(ap, flags); \
                fd = do_openat(dir, path, flags, ap); \
                va_end(ap); \
                return fd; \
        }
#define OPEN(name) \
        int name(const char *path, int flags, ...) { \
                va_list ap; \
                int fd; \
                va_start(ap, flags); \
                fd = do_openat(AT_FDCWD, path, flags, ap); \
                va_end(ap); \
                return fd; \
        }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

FILE *fopen(const char *path, const char *mode) {
        static FILE *(*real)(const char *, const char *);

        if (!real)
                real = (FILE * (*) (const char *, const char *) ) next("fopen");
        return fails('o', EMFILE) ? NULL : real(path, mode);
}

/* openat2(2) has no function of its own. */
long syscall(long number, ...) {
        long a[6];
        va_list ap;

        va_start(ap, number);
        for (int i = 0; i < 6; i++)
                a[i] = va_arg(ap, long);
        va_end(ap);
        if (number == __NR_openat2 && fails('o', EMFILE))
                return -1;
        return raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* --- Sends and writes --------------------------------------------------------------------------------- */

ssize_t sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to,
               socklen_t to_len) {
        return fails('s', ENOBUFS)
                       ? -1
                       : raw(SYS_sendto, fd, (long) data, (long) len, flags, (long) to, (long) to_len);
}

ssize_t send(int fd, const void *data, size_t len, int flags) {
        return sendto(fd, data, len, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
        return fails('s', ENOBUFS) ? -1 : raw(SYS_sendmsg, fd, (long) m, flags, 0, 0, 0);
}

ssize_t write(int fd, const void *data, size_t len) {
        return fails('w', ENOSPC) ? -1 : raw(SYS_write, fd, (long) data, (long) len, 0, 0, 0);
}

/* --- The beginning ------------------------------------------------------------------------------------ */

static main_t real_main;

static int count_from_here(int argc, char **argv, char **environment) {
        const char *w = getenv("FAIL_WHAT"), *n = getenv("FAIL_NTH");

        (void) next("fopen");
        if (w && n) {
                left = atol(n);
                what = w[0];
        }
        return real_main(argc, argv, environment);
}

int __libc_start_main(main_t m, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end) {
        start_t real = (start_t) next("__libc_start_main");

        real_main = m;
        return real(count_from_here, argc, argv, init, fini, rtld_fini, stack_end);
}
