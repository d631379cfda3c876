/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which host's network does not carry: out of connections that get no answer, as both of their ends tell of
 * them (findings PATH_CHECK: subject is the peer's address, found begins with "from ADDRESS,"). A connection
 * has two ends and does not say which of them is cut off; the end that most others miss does.
 */
#include "evidence.h"

#define PATH_CHECK "path.answer"

struct path_end {
        const char *address; /* not ended by NUL */
        size_t len;
        uint32_t host;    /* of the evidence; STACK_NONE: nobody says that it is his */
        uint32_t missing; /* how many others it has no answer from, or get none from it */
};

struct paths {
        struct path_end *ends; /* by address */
        size_t n;
        struct path_end **worst; /* of each host: its end that misses most; NULL: it has none */
        uint32_t most; /* the greatest `missing` of a host's end */
        size_t n_most; /* how many ends have that */
};
#define PATHS_NULL ((struct paths) { 0 })
void paths_clear(struct paths *p);

/* Out of the last captures. -ENOMEM. */
int paths_survey(const struct evidence *e, struct paths *ret);
