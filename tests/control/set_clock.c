/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD: a real clock that a test sets, as date(1) would. $SET_CLOCK is a file of eight bytes, the
 * seconds by which it is ahead (negative: behind), looked at each time; the clocks since boot go on as they
 * are.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void map_it(void) {
        const char *path = getenv("SET_CLOCK");
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *p = fd >= 0 ? mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

        if (p != MAP_FAILED)
                ahead = p;
        if (fd >= 0)
                (void) close(fd);
}

int clock_gettime(clockid_t id, struct timespec *t) {
        int r = (int) syscall(SYS_clock_gettime, id, t);

        if (r == 0 && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
                t->tv_sec += *ahead;
        return r;
}

time_t time(time_t *ret) {
        struct timespec t = { 0 };

        (void) clock_gettime(CLOCK_REALTIME, &t);
        if (ret)
                *ret = t.tv_sec;
        return t.tv_sec;
}

int gettimeofday(struct timeval *ret, void *zone) {
        struct timespec t = { 0 };

        (void) zone;
        (void) clock_gettime(CLOCK_REALTIME, &t);
        *ret = (struct timeval) { .tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000 };
        return 0;
}
