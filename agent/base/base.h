/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The idioms every room shares: ownership by cleanup attributes, time in microseconds, small macros.
 * Nothing here allocates or fails.
 *
 * Errors: functions return 0 or a positive documented answer on success, -errno on failure; outputs are
 * named ret_*, come last, and are untouched on failure.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Microseconds: a span, or an instant on the clock that the name says (boot or real). */
typedef uint64_t usec_t;
#define USEC_PER_MSEC ((usec_t) 1000)
#define USEC_PER_SEC ((usec_t) 1000000)
#define USEC_INFINITY UINT64_MAX
#define NSEC_PER_USEC ((uint64_t) 1000)

#define ELEMENTSOF(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
/* Below 0, 0, above 0: as qsort() asks. By several keys: COMPARE(a->x, b->x) ?: COMPARE(a->y, b->y). */
#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))
/* The value of a macro as a text: AS_TEXT(PORT_OTLP) is "4318". */
#define AS_TEXT_(x) #x
#define AS_TEXT(x) AS_TEXT_(x)
#define _printf_(fmt, first) __attribute__((format(printf, fmt, first)))
#define _cleanup_(f) __attribute__((cleanup(f)))

/* Pass ownership on: the variable is left empty, so that its cleanup does nothing. */
#define TAKE_PTR(p)                          \
        ({                                   \
                __typeof__(p) _taken = (p);  \
                (p) = NULL;                  \
                _taken;                      \
        })
/* Memory or descriptors are out for the moment: says nothing about what was to be read. */
static inline bool errno_is_shortage(int r) {
        r = r < 0 ? -r : r;
        return r == ENOMEM || r == EMFILE || r == ENFILE;
}

#define TAKE_FD(fd)                          \
        ({                                   \
                int _taken_fd = (fd);        \
                (fd) = -1;                   \
                _taken_fd;                   \
        })

/* Closes what open_memstream() made of text, which it returns; NULL, and text is freed, when not all of it
 * is there. fclose() alone is silent when glibc gets no memory for its last copy. */
static inline char *memstream_close(FILE *f, char **text) {
        if (fclose(f) < 0)
                free(TAKE_PTR(*text));
        return *text;
}

static inline bool streq(const char *a, const char *b) {
        return strcmp(a, b) == 0;
}

static inline bool startswith(const char *s, const char *prefix) {
        return strncmp(s, prefix, strlen(prefix)) == 0;
}

static inline bool endswith(const char *s, const char *suffix) {
        size_t n = strlen(s), m = strlen(suffix);

        return n >= m && strcmp(s + n - m, suffix) == 0;
}

static inline bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

/* The value of a hexadecimal digit in either case; -1: it is none. */
static inline int hex_digit(char c) {
        if (is_digit(c))
                return c - '0';
        c = (char) (c | 0x20);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static inline void freep(void *p) {
        free(*(void **) p);
}

/* Closes and returns -1. Not retried on EINTR: on Linux the descriptor is gone in both cases. */
static inline int close_fd(int fd) {
        if (fd >= 0)
                (void) close(fd); /* nothing is written through descriptors closed like this */
        return -1;
}

static inline void closep(int *fd) {
        *fd = close_fd(*fd);
}

static inline void fclosep(FILE **f) {
        if (*f)
                (void) fclose(*f); /* read-only streams; writers check fclose() themselves */
}

static inline void closedirp(DIR **d) {
        if (*d)
                (void) closedir(*d);
}

#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)
#define _cleanup_fclose_ _cleanup_(fclosep)
#define _cleanup_closedir_ _cleanup_(closedirp)

/* Defines `name`p(), for _cleanup_(), out of a destructor that accepts NULL. */
#define DEFINE_CLEANUP(type, destructor)                 \
        static inline void destructor##p(type *p) {      \
                if (*p)                                  \
                        (void) destructor(*p);           \
        }
