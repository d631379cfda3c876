/* SPDX-License-Identifier: Apache-2.0 */
#include "maps.h"

#define DELETED " (deleted)"

/* Reads digits of the base and the character after them. */
static bool take_number(const char **p, const char *end, unsigned base, char after, uint64_t *ret) {
        uint64_t v = 0;
        const char *start = *p;

        for (; *p < end; (*p)++) {
                char c = **p;
                unsigned digit = c >= '0' && c <= '9'   ? (unsigned) (c - '0')
                                 : c >= 'a' && c <= 'f' ? (unsigned) (c - 'a') + 10
                                                        : 99;

                if (digit >= base)
                        break;
                if (v > (UINT64_MAX - digit) / base)
                        return false;
                v = v * base + digit;
        }
        if (*p == start || *p == end || **p != after)
                return false;
        (*p)++;
        *ret = v;
        return true;
}

int maps_parse_line(const char *line, size_t len, struct mapping *ret) {
        const char *p = line, *end = line + len;
        uint64_t major, minor;
        size_t n;

        if (!take_number(&p, end, 16, '-', &ret->start) || !take_number(&p, end, 16, ' ', &ret->end) ||
            end - p < 5 || p[4] != ' ')
                return -EBADMSG;
        ret->executable = p[2] == 'x';
        p += 5; /* "r-xp " */
        if (!take_number(&p, end, 16, ' ', &ret->offset) || !take_number(&p, end, 16, ':', &major) ||
            !take_number(&p, end, 16, ' ', &minor))
                return -EBADMSG;
        ret->inode = 0;
        for (; p < end && *p >= '0' && *p <= '9'; p++)
                ret->inode = ret->inode * 10 + (uint64_t) (*p - '0');
        while (p < end && *p == ' ')
                p++;
        n = (size_t) (end - p);
        if (ret->end <= ret->start || n >= MAPS_PATH_MAX || memchr(p, '\0', n))
                return -EBADMSG;
        memcpy(ret->path, p, n);
        ret->path[n] = '\0';
        ret->deleted = n > strlen(DELETED) && streq(ret->path + n - strlen(DELETED), DELETED);
        if (ret->deleted)
                ret->path[n - strlen(DELETED)] = '\0';
        return 0;
}

/* Visits the whole lines of buf; *ret_used: how many bytes they were. */
static int visit_lines(const char *buf, size_t n, int (*visit)(const struct mapping *m, void *userdata),
                       void *userdata, size_t *ret_used) {
        struct mapping m;
        size_t used = 0;

        for (const char *end; used < n && (end = memchr(buf + used, '\n', n - used));) {
                size_t len = (size_t) (end - (buf + used));
                int r = maps_parse_line(buf + used, len, &m);

                used += len + 1;
                if (r == 0 && m.path[0] == '/')
                        r = visit(&m, userdata);
                if (r != 0 && r != -EBADMSG)
                        return r;
        }
        *ret_used = used;
        return 0;
}

int maps_read(int fd, int (*visit)(const struct mapping *m, void *userdata), void *userdata,
              bool *ret_empty) {
        char buf[32768];
        size_t n = 0, total = 0;

        for (;;) {
                ssize_t k = read(fd, buf + n, sizeof(buf) - n);
                size_t used;
                int r;

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return -errno;
                if (k == 0)
                        break;
                n += (size_t) k;
                total += (size_t) k;
                if (total > MAPS_BYTES_MAX)
                        return -E2BIG;
                r = visit_lines(buf, n, visit, userdata, &used);
                if (r != 0)
                        return r;
                memmove(buf, buf + used, n - used);
                n -= used;
                if (n == sizeof(buf))
                        n = 0; /* no line of maps is that long: drop it, the rest of it will not parse */
        }
        *ret_empty = total == 0;
        return 0;
}
