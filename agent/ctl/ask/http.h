/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One HTTP exchange of a command-line program: blocking, bounded in time and size, no proxy of the
 * environment, no redirects but one that is asked for. The answer must be a JSON object, or captures (a JSON
 * string of their bytes); an error answer's own text and remedy (docs/api.md) are passed on.
 */
#include <jansson.h>

#include "base.h"
#include "problem.h"

#define HTTP_ANSWER_MAX (32 * 1024 * 1024) /* 200 events with their stacks, or 50,000 hosts */

struct http_question {
        const char *unix_socket; /* path, or NULL: by the URL's host */
        const char *url;
        /* PEM files for https; NULL or "": the system's authorities, no certificate. */
        const char *ca, *certificate, *key, *crl;
        const char *method; /* NULL: GET */
        const char *body; /* JSON that goes with it; NULL: none */
        usec_t timeout;
        bool follows;     /* 307 leads elsewhere, once: to where https is spoken, or from where it was not */
};

/*
 * 0 and a new reference; -errno with problem set: -ENOENT for 404, -EBUSY for 409, else -EPROTO where it was
 * answered.
 */
int http_json(const struct http_question *q, json_t **ret, struct problem *problem);

/* n exchanges at the same time, each as http_json() would, but those that are to be skipped. -ENOMEM. */
#define HTTP_MANY_MAX 4096
struct http_exchange {
        struct http_question request;
        bool skip;
        json_t *answer; /* NULL with error and problem */
        int error;
        struct problem problem;
};
int http_json_many(struct http_exchange *x, size_t n);

/* The path of a socket below root ("/run/…"), malloc'ed. -ENOMEM, -ENAMETOOLONG past what a socket address
 * holds. */
int socket_path(const char *root, const char *path, char **ret);
