/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into tpu-hostd: a disk whose fdatasync takes its time, as network disks do. What is in memory
 * only then waits long enough for a kill to meet it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

#define SLOW_USEC 20000

int fdatasync(int fd) {
        int (*real)(int) = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");

        (void) usleep(SLOW_USEC);
        return real(fd);
}
