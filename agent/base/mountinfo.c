/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/sysmacros.h>

#include "mountinfo.h"

#define LINE_SIZE 4096

/* "\040" stands for a blank, and so on. */
static bool mount_unescape(const char *from, size_t len, char *to, size_t size) {
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
bool mountinfo_parse(const char *line, struct mount_entry *ret) {
        const char *separator = strstr(line, " - ");
        unsigned major, minor;
        struct mount_entry m = { .source = "" };
        int at = 0;
        size_t n;

        if (!separator || sscanf(line, "%*u %*u %u:%u %*s %n", &major, &minor, &at) != 2 || at == 0 ||
            line + at >= separator)
                return false;
        if (!mount_unescape(line + at, strcspn(line + at, " "), m.point, sizeof(m.point)) || m.point[0] != '/')
                return false;
        separator += strlen(" - ");
        n = strcspn(separator, " \n");
        if (n == 0 || n >= sizeof(m.type))
                return false;
        memcpy(m.type, separator, n);
        (void) sscanf(separator + n, " %63s", m.source); /* some have none */
        m.device = makedev(major, minor);
        *ret = m;
        return true;
}

int mountinfo_visit(const struct host *h, bool (*visit)(const struct mount_entry *m, void *userdata),
                    void *userdata) {
        int fd = host_open_file(h, "/proc/self/mountinfo", O_RDONLY);
        _cleanup_fclose_ FILE *f = fd >= 0 ? fdopen(fd, "re") : NULL;
        struct mount_entry m;
        char line[LINE_SIZE];

        if (!f) {
                (void) close_fd(fd);
                return fd < 0 ? fd : -ENOMEM;
        }
        while (fgets(line, sizeof(line), f))
                if (strchr(line, '\n') && mountinfo_parse(line, &m) && !visit(&m, userdata))
                        break;
        return 0;
}
