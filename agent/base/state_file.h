/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A small file in which a program keeps what it must know after its end. Any crash leaves the previous
 * content or the new one (io.h); damage is found; another version of the program never guesses at it.
 * One head line, then the content, as it is:
 *
 *   tpu-state WHAT VERSION CRC32C
 *
 * WHAT is a word, VERSION a decimal number, CRC32C eight hexadecimal digits, of the content. Whoever changes
 * the meaning of the content raises the version. A file that is damaged or of another version is renamed,
 * said in a warning, and kept for a person: NAME.damaged, NAME.other-version.
 *
 * Paths are relative to dir_fd (AT_FDCWD: absolute).
 */
#include <jansson.h>

#include "io.h"

#define STATE_FILE_HEAD_MAX 64
#define STATE_FILE_WHY_MAX 128
#define STATE_FILE_ASIDE_MAX 320

struct state_format {
        const char *what; /* of [a-z-], at most 24 */
        unsigned version;
        size_t max; /* bytes of content */
        struct durable_options options;
};

/* The head of a content; returns its length. */
size_t state_file_head(const struct state_format *f, const void *content, size_t len,
                       char buf[static STATE_FILE_HEAD_MAX]);
/*
 * Pure: where the content of a whole file begins. -EBADMSG: it is damaged, or no state file;
 * -EPROTONOSUPPORT: it is whole, and of another version; both with why.
 */
int state_file_parse(const struct state_format *f, const char *bytes, size_t len, size_t *ret_content,
                     char why[static STATE_FILE_WHY_MAX]);

/* -E2BIG above max, or -errno: the previous content stands. Allocates nothing. */
int state_file_write(int dir_fd, const char *path, const struct state_format *f, const void *content,
                     size_t len);
/* The content, malloc'ed and NUL-terminated. state_file_parse()'s errors with why, -ENOENT, -errno. */
int state_file_read(int dir_fd, const char *path, const struct state_format *f, char **ret, size_t *ret_len,
                    char why[static STATE_FILE_WHY_MAX]);
/* Renames what cannot be used; error: why, as state_file_read() said it. Returns the new name, or what kept
 * it. */
const char *state_file_set_aside(int dir_fd, const char *path, int error,
                                 char buf[static STATE_FILE_ASIDE_MAX]);
/* Reads; what cannot be used is set aside and said, and then -ENOENT as where there is none. */
int state_file_load(int dir_fd, const char *path, const struct state_format *f, char **ret, size_t *ret_len);

/* The same with one JSON value as the content. o is taken over; NULL is -ENOMEM. */
int state_file_write_json(int dir_fd, const char *path, const struct state_format *f, json_t *o);
/* What is no JSON, and so was not written by us, is set aside, too. */
int state_file_load_json(int dir_fd, const char *path, const struct state_format *f, json_t **ret);
