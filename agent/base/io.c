/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/syscall.h>

#include "io.h"

ssize_t io_read_up_to(int fd, void *buf, size_t size) {
        uint8_t *p = buf;
        size_t n = 0;

        while (n < size) {
                ssize_t k = read(fd, p + n, size - n);

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return -errno;
                if (k == 0)
                        break;
                n += (size_t) k;
        }
        return (ssize_t) n;
}

bool io_was_last(size_t n, size_t asked) {
        return n == 0 || (n < asked && n < 2048);
}

int io_write_all(int fd, const void *data, size_t len) {
        const uint8_t *p = data;

        while (len > 0) {
                ssize_t n = write(fd, p, len);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                p += n;
                len -= (size_t) n;
        }
        return 0;
}

void io_close_others(int keep) {
#ifdef __NR_close_range /* of the kernel: the C library of Debian 11 has no SYS_close_range */
        if (keep > 3)
                (void) syscall(__NR_close_range, 3U, (unsigned) keep - 1, 0U);
        (void) syscall(__NR_close_range, (unsigned) MAX(keep + 1, 3), ~0U, 0U);
#else
        (void) keep;
#endif
}
