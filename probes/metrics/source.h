/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A file of /proc, /sys or a control group that is read again and again: opened once through the host seam
 * and kept, read from its start each time. A file that is gone (a control group that was removed, a device
 * that was unplugged) is closed and opened anew, so that what took its place is found. Nothing is allocated.
 */
#include <sys/types.h>

#include "host.h"
#include "probe.h"

struct source {
        int fd; /* -1: not open */
};
#define SOURCE_NULL ((struct source){ .fd = -1 })
void source_close(struct source *s);

/*
 * Reads what fits into size - 1 bytes and ends it with a NUL. Returns the length; -ENOENT and other -errno
 * when it cannot be read. What does not fit is left out.
 */
ssize_t source_read(struct source *s, const struct host *h, const char *path, char *buf, size_t size);

/* The lines of a file of any length up to SOURCE_BYTES_MAX, through a buffer of fixed size. */
#define LINES_BUFFER 4096
#define SOURCE_BYTES_MAX (1024 * 1024)
struct lines {
        int fd;
        off_t at;        /* of the file: what was read so far */
        size_t from, to; /* of the buffer: what was not handed out yet */
        bool end, skip;  /* skip: the rest of an overlong line */
        char buf[LINES_BUFFER];
};
/* 0 or -errno. l is valid until the source is closed. */
int lines_begin(struct lines *l, struct source *s, const struct host *h, const char *path);
/* The next line without its end, NUL-terminated, valid until the next call; NULL: no more. Lines longer than
 * the buffer are left out. */
char *lines_next(struct lines *l);

/* Takes a number after blanks, moves *p behind it. False: no number, or above INT64_MAX; *p is then as it
 * was. */
bool take_number(const char **p, int64_t *ret);
bool take_hex(const char **p, int64_t *ret);
/* Moves *p behind the next word, which it returns with its length. NULL: none. */
const char *take_word(const char **p, size_t *ret_len);
bool word_is(const char *word, size_t len, const char *wanted);
/* a + b, held at INT64_MAX: both are counters, none is negative. */
int64_t sum_held(int64_t a, int64_t b);

/* Lines "KEY NUMBER" and then unit ("", " kB"); a key that ends in '*' is the sum of all that begin so. */
#define FIELD_MISSING (-1)
struct field {
        const char *key;
        int64_t *value; /* FIELD_MISSING: there is no such line */
};
void lines_fields(struct lines *l, const struct field *fields, size_t n, const char *unit, int64_t factor);

/* --- What one look at the host goes through all parts of this room with --- */

enum host_file {
        FILE_STAT,
        FILE_CPUS,
        FILE_PRESSURE_CPU, /* in the order of enum pressure_resource */
        FILE_PRESSURE_MEMORY,
        FILE_PRESSURE_IO,
        FILE_PRESSURE_IRQ,
        FILE_MEMINFO,
        FILE_VMSTAT,
        FILE_NET_DEV,
        FILE_SOFTNET,
        FILE_SNMP,
        FILE_NETSTAT,
        FILE_CONNTRACK_COUNT,
        FILE_CONNTRACK_MAX,
        FILE_CONNTRACK,
        FILE_DISKSTATS,
        _HOST_FILE_MAX,
};

struct metrics_look {
        const struct host *host;
        struct sink *sink;
        struct lines *lines; /* one buffer for all files that are read by lines */
        struct source *files; /* _HOST_FILE_MAX; NULL: of control groups only */
        usec_t now;          /* boot clock */
};
/* As source_read() and lines_begin() of one of the host's files. */
ssize_t look_text(const struct metrics_look *l, enum host_file f, char *buf, size_t size);
int look_lines(const struct metrics_look *l, enum host_file f);
