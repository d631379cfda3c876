/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The query arguments of a call, checked by a table before the call is made. One that the table does not
 * have is an error that names it (a misspelt until= would make an order last for ever), and so are one given
 * twice, a number or a time out of bounds, and a needed one that is missing. An empty text counts as not
 * given, or is refused (TAKES_SOME).
 */
#include "http_server.h"

#define ARGUMENTS_MAX 14 /* of one call */
#define ARGUMENTS_WHY_MAX 300

enum argument_kind {
        ARGUMENT_TEXT,   /* shorter than most bytes; most 0: any */
        ARGUMENT_NAME,   /* likewise, of letters, digits, '.', '_' and '-' */
        ARGUMENT_NUMBER, /* whole, digits alone, from least to most */
        ARGUMENT_TIME,   /* as clock_parse() has it; microseconds since 1970 */
};

struct argument {
        const char *name;
        enum argument_kind kind;
        int64_t least, most;
        bool needed;
        const char *const *words; /* of a text: NULL, or the only ones there are, ended by NULL */
};
#define TAKES_TEXT(n, size) { .name = (n), .most = (size) } /* size 0: any */
#define TAKES_WORD(n, list) { .name = (n), .words = (list) }
#define TAKES_SOME(n) { .name = (n), .least = 1 } /* a text that is not empty */
#define TAKES_NUMBER(n, from, to) { .name = (n), .kind = ARGUMENT_NUMBER, .least = (from), .most = (to) }
#define TAKES_TIME(n) { .name = (n), .kind = ARGUMENT_TIME }
#define TAKES_END { .name = NULL }
/* A table of up to ARGUMENTS_MAX: ARGUMENTS(TAKES_NUMBER("since", 0, INT64_MAX), …). */
#define ARGUMENTS(...) (const struct argument[]){ __VA_ARGS__, TAKES_END }

struct arguments {
        const struct argument *table; /* NULL: none is taken */
        bool lenient;                 /* what the table does not have is passed over */
        unsigned given;               /* bit i: table[i] was */
        const char *text[ARGUMENTS_MAX]; /* as given; NULL: not given, or empty. Borrowed from the request */
        int64_t number[ARGUMENTS_MAX];   /* -1: not given */
        char why[ARGUMENTS_WHY_MAX];
};

/* Of the request, by the table of a. -EINVAL with why, which is valid UTF-8. */
int arguments_read(struct arguments *a, const struct http_request *q);
/* One as it came, any bytes; arguments_read() calls it. */
int arguments_take(struct arguments *a, const char *key, const char *value);
/* name is one of the table's. NULL: not given. */
const char *arguments_text(const struct arguments *a, const char *name);
int64_t arguments_number(const struct arguments *a, const char *name, int64_t not_given);
