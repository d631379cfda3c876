/* SPDX-License-Identifier: Apache-2.0 */
#include "source.h"

#include <fcntl.h>
#include <limits.h>

#include "io.h"

void source_close(struct source *s) {
        s->fd = close_fd(s->fd);
}

static int source_open(struct source *s, const struct host *h, const char *path) {
        int fd;

        if (s->fd >= 0)
                return 0;
        fd = host_open_file(h, path, O_RDONLY);
        if (fd < 0)
                return fd;
        s->fd = fd;
        return 0;
}

/* From the start of the file. A kept file that does not answer any more is opened anew, once. */
static ssize_t read_start(struct source *s, const struct host *h, const char *path, char *buf, size_t size) {
        bool kept = s->fd >= 0;
        ssize_t n;
        int r = source_open(s, h, path);

        if (r < 0)
                return r;
        n = pread(s->fd, buf, size, 0);
        if (n >= 0)
                return n;
        r = -errno;
        source_close(s);
        if (!kept)
                return r;
        r = source_open(s, h, path);
        if (r < 0)
                return r;
        n = pread(s->fd, buf, size, 0);
        if (n < 0) {
                r = -errno;
                source_close(s);
                return r;
        }
        return n;
}

ssize_t source_read(struct source *s, const struct host *h, const char *path, char *buf, size_t size) {
        ssize_t n = read_start(s, h, path, buf, size - 1);

        if (n >= 0)
                buf[n] = 0;
        return n;
}

int lines_begin(struct lines *l, struct source *s, const struct host *h, const char *path) {
        ssize_t n;

        l->from = l->to = 0;
        l->at = 0;
        l->end = l->skip = false;
        n = read_start(s, h, path, l->buf, sizeof(l->buf) - 1);
        if (n < 0)
                return (int) n;
        l->fd = s->fd;
        l->to = (size_t) n;
        l->at = n;
        l->end = io_was_last((size_t) n, sizeof(l->buf) - 1);
        return 0;
}

static void refill(struct lines *l) {
        size_t room;
        ssize_t n;

        memmove(l->buf, l->buf + l->from, l->to - l->from);
        l->to -= l->from;
        l->from = 0;
        if (l->to == sizeof(l->buf) - 1) { /* a line that is longer than the buffer */
                l->to = 0;
                l->skip = true;
        }
        room = sizeof(l->buf) - 1 - l->to;
        n = l->at < SOURCE_BYTES_MAX ? pread(l->fd, l->buf + l->to, room, l->at) : 0;
        if (n <= 0) {
                l->end = true;
                return;
        }
        l->to += (size_t) n;
        l->at += n;
        l->end = io_was_last((size_t) n, room);
}

char *lines_next(struct lines *l) {
        for (;;) {
                char *line = l->buf + l->from, *newline = memchr(line, '\n', l->to - l->from);

                if (newline) {
                        bool skipped = l->skip;

                        *newline = 0;
                        l->from = (size_t) (newline - l->buf) + 1;
                        l->skip = false;
                        if (!skipped)
                                return line;
                        continue;
                }
                if (l->end) {
                        if (l->from == l->to || l->skip)
                                return NULL;
                        l->buf[l->to] = 0;
                        l->from = l->to;
                        return line;
                }
                refill(l);
        }
}

/* --- Files of the host --------------------------------------------------------------------------------- */

static const char *const paths[] = {
        [FILE_STAT] = "/proc/stat",
        [FILE_CPUS] = "/sys/devices/system/cpu/online",
        [FILE_PRESSURE_CPU] = "/proc/pressure/cpu",
        [FILE_PRESSURE_MEMORY] = "/proc/pressure/memory",
        [FILE_PRESSURE_IO] = "/proc/pressure/io",
        [FILE_PRESSURE_IRQ] = "/proc/pressure/irq",
        [FILE_MEMINFO] = "/proc/meminfo",
        [FILE_VMSTAT] = "/proc/vmstat",
        [FILE_NET_DEV] = "/proc/net/dev",
        [FILE_SOFTNET] = "/proc/net/softnet_stat",
        [FILE_SNMP] = "/proc/net/snmp",
        [FILE_NETSTAT] = "/proc/net/netstat",
        [FILE_CONNTRACK_COUNT] = "/proc/sys/net/netfilter/nf_conntrack_count",
        [FILE_CONNTRACK_MAX] = "/proc/sys/net/netfilter/nf_conntrack_max",
        [FILE_CONNTRACK] = "/proc/net/stat/nf_conntrack",
        [FILE_DISKSTATS] = "/proc/diskstats",
};
_Static_assert(ELEMENTSOF(paths) == _HOST_FILE_MAX, "a path a file");

ssize_t look_text(const struct metrics_look *l, enum host_file f, char *buf, size_t size) {
        return source_read(&l->files[f], l->host, paths[f], buf, size);
}

int look_lines(const struct metrics_look *l, enum host_file f) {
        return lines_begin(l->lines, &l->files[f], l->host, paths[f]);
}

/* --- Words and numbers --------------------------------------------------------------------------------- */

static const char *skip_blanks(const char *p) {
        return p + strspn(p, " \t");
}

static int digit_of(char c) {
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : INT_MAX;
}

static bool take_digits(const char **p, int base, int64_t *ret) {
        const char *c = skip_blanks(*p);
        int64_t v = 0;

        if (digit_of(*c) >= base)
                return false;
        for (; digit_of(*c) < base; c++)
                if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, digit_of(*c), &v))
                        return false;
        *p = c;
        *ret = v;
        return true;
}

bool take_number(const char **p, int64_t *ret) {
        return take_digits(p, 10, ret);
}

bool take_hex(const char **p, int64_t *ret) {
        return take_digits(p, 16, ret);
}

const char *take_word(const char **p, size_t *ret_len) {
        const char *word = skip_blanks(*p);
        size_t n = strcspn(word, " \t");

        if (n == 0)
                return NULL;
        *p = word + n;
        *ret_len = n;
        return word;
}

bool word_is(const char *word, size_t len, const char *wanted) {
        return len > 0 && word[0] == wanted[0] && strncmp(word, wanted, len) == 0 && wanted[len] == 0;
}

int64_t sum_held(int64_t a, int64_t b) {
        return a > INT64_MAX - b ? INT64_MAX : a + b;
}

void lines_fields(struct lines *l, const struct field *fields, size_t n, const char *unit, int64_t factor) {
        for (size_t i = 0; i < n; i++)
                *fields[i].value = FIELD_MISSING;
        for (char *line; (line = lines_next(l));) {
                const char *p = line, *key;
                int64_t value;
                size_t len;

                key = take_word(&p, &len);
                if (!key || !take_number(&p, &value) || !streq(p, unit) || value > INT64_MAX / factor)
                        continue;
                for (size_t i = 0; i < n; i++) {
                        int64_t *sum = fields[i].value;
                        size_t prefix = strcspn(fields[i].key, "*");

                        if (word_is(key, len, fields[i].key))
                                *sum = value * factor;
                        else if (fields[i].key[prefix] && strncmp(key, fields[i].key, prefix) == 0)
                                *sum = sum_held(MAX(*sum, (int64_t) 0), value * factor);
                }
        }
}
