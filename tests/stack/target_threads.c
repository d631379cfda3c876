/* SPDX-License-Identifier: Apache-2.0 */
/*
 * So many threads as the first argument says: one runs, the others wait. The second, a file of eight bytes:
 * the longest time in nanoseconds that the one could not run goes there, whenever it is longer than what is
 * there.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t); /* of the vDSO: no system call */
        return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static void watch(const char *path) {
        int fd = open(path, O_RDWR);
        volatile uint64_t *longest = mmap(NULL, sizeof(*longest), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (longest == MAP_FAILED)
                _exit(1);
        for (uint64_t last = now();;) {
                uint64_t t = now();

                if (t - last > *longest)
                        *longest = t - last;
                last = t;
        }
}

static void *waits(void *arg) {
        for (;;)
                pause();
        return arg;
}

int main(int argc, char *argv[]) {
        int n = argc > 1 ? atoi(argv[1]) : 2;
        volatile unsigned long spins = 0;
        pthread_attr_t a;

        (void) pthread_attr_init(&a);
        (void) pthread_attr_setstacksize(&a, 128 * 1024);
        for (int i = 1; i < n; i++) {
                pthread_t t;

                if (pthread_create(&t, &a, waits, NULL) != 0)
                        return 1;
        }
        (void) write(1, "ready\n", 6);
        if (argc > 2)
                watch(argv[2]);
        for (;;)
                spins++;
}
