/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One HTTP exchange of a command-line program: blocking, bounded in time and size, no proxy of the environment. Of
 * redirects only 307 is followed (another collector leads), by http_json() alone, never from https to http. The answer must be JSON; an error answer's own text and remedy (docs/api.md) are passed
 * on.
 */
#include <jansson.h>

#include "base.h"
#include "problem.h"

#define HTTP_ANSWER_MAX (32 * 1024 * 1024) /* 200 events with their stacks, or 50,000 hosts */

struct http_request {
        const char *unix_socket; /* path, or NULL: by the URL's host */
        const char *url;
        /* PEM files for https; NULL or "": the system's authorities, no certificate. */
        const char *ca, *certificate, *key;
        bool post; /* with an empty body; else GET */
        const char *method; /* another one, with an empty body; NULL: as post says */
        const char *body; /* JSON that goes with it; NULL: none */
        usec_t timeout;
        unsigned segment; /* TCP payload of one packet, both ways; 0: what the kernel finds right */
};

/* 0 and a new reference; -errno with problem set: -ENOENT for 404, -EBUSY for 409, else -EPROTO where it was
 * answered. */
int http_json(const struct http_request *q, json_t **ret, struct problem *problem);

/*
 * n exchanges at the same time, each as http_json() would: ret[i] is its answer, NULL with problems[i] set.
 * -ENOMEM.
 */
#define HTTP_MANY_MAX 4096
int http_json_many(const struct http_request *q, size_t n, json_t **ret, struct problem *problems);

/* The path of a socket below root ("/run/…"), malloc'ed. -ENOMEM, -ENAMETOOLONG past what a socket address
 * holds. */
int socket_path(const char *root, const char *path, char **ret);
