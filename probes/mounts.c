/* SPDX-License-Identifier: Apache-2.0 */
#include "mounts.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

/* "\040" stands for a blank, and so on. */
static bool unescape(const char *from, size_t len, char *to, size_t size) {
        size_t n = 0;

        for (size_t i = 0; i < len; i++) {
                unsigned c = (unsigned char) from[i];

                if (c == '\\') {
                        if (len - i < 4 || sscanf(from + i + 1, "%3o", &c) != 1 || c == 0 || c > 0377)
                                return false;
                        i += 3;
                }
                if (n + 1 >= size)
                        return false;
                to[n++] = (char) c;
        }
        to[n] = 0;
        return n > 0;
}

/* "36 35 98:0 /root-of-it /mnt rw,noatime master:1 - ext4 /dev/sda1 rw" */
bool mount_parse(const char *line, struct mount_point *ret) {
        unsigned major, minor;
        const char *separator = strstr(line, " - "), *path;
        char type[32], source[64];
        struct mount_point m;
        int at = 0;

        if (!separator || sscanf(line, "%*u %*u %u:%u %*s %n", &major, &minor, &at) != 2 || at == 0 ||
            line + at >= separator || sscanf(separator, " - %31s %63s", type, source) != 2)
                return false;
        path = line + at;
        if (!startswith(source, "/dev/") || startswith(source, "/dev/loop") ||
            !unescape(path, strcspn(path, " "), m.path, sizeof(m.path)) || m.path[0] != '/')
                return false;
        m.device = streq(type, "btrfs") ? 0 : makedev(major, minor);
        *ret = m;
        return true;
}

int mounts_read(const struct host *h, struct mount_point *ret, size_t max) {
        _cleanup_fclose_ FILE *f = NULL;
        char line[4096];
        size_t n = 0;
        int fd;

        fd = host_open_file(h, "/proc/self/mountinfo", O_RDONLY);
        if (fd < 0)
                return fd;
        f = fdopen(fd, "r");
        if (!f) {
                close_fd(fd);
                return -ENOMEM;
        }
        while (n < max && fgets(line, sizeof(line), f))
                if (strchr(line, '\n') && mount_parse(line, &ret[n]))
                        n++;
        return (int) n;
}
