/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * HTTP/1.1 on the agent's Unix socket, and with TLS on TCP: connections, limits and who calls. What a call
 * means is the handler's business. The loop of libmicrohttpd hangs in ours: nothing here blocks.
 */
#include <sys/socket.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "base.h"

/* Of a request: its line and headers; libmicrohttpd answers 414 or 431 beyond. */
#define API_HEADER_MAX (16 * 1024)
#define API_BODY_MAX (64 * 1024) /* of a request: 413 beyond; kept for a call that reads it, else passed over */
#define API_DISCARD_MAX (1024 * 1024) /* of a body that announces no length: the connection ends there */
#define API_NAME_MAX 256
#define API_OPTIONS 6 /* of libmicrohttpd, that a kind of socket may add */
#define API_ALLOW_MAX 48

/* One call that waits for its answer; NULL once the client is gone. */
struct api_call;

struct api_caller {
        bool remote;       /* over TCP, known by a certificate; else over the Unix socket */
        struct ucred peer; /* local: of the connect(2), from the kernel */
        bool acts;         /* remote: it may make calls that act */
        char name[API_NAME_MAX]; /* remote: the URI of its certificate that lets it call; empty: none does */
        char address[64];  /* remote */
};

struct api_request {
        const char *method, *path;
        const char *peers; /* the query argument peer=, NULL when absent */
        struct api_caller caller;
        const char *denied;    /* why the caller may not even read; NULL: it may */
        const char *body; /* what came with it; not terminated, NULL where none is read */
        size_t body_len;
        struct api_call *call; /* to answer later */
};

/* A query argument of the call, NULL when absent; valid while the call is. */
const char *api_argument(const struct api_request *r, const char *name);

/* Visits the name of every query argument until one answers non-zero, which is returned. */
int api_arguments(const struct api_request *r, int (*visit)(const char *name, void *userdata),
                  void *userdata);
/* A header of the call, NULL when absent; likewise. */
const char *api_header(const struct api_request *r, const char *name);

struct api_answer {
        unsigned status;  /* HTTP's */
        const char *type; /* static */
        char *body;       /* malloc'ed, owned by the API from here on */
        size_t len;
        char allow[API_ALLOW_MAX]; /* of 405: the methods; empty: not said */
        unsigned retry_after;      /* of 503, in seconds: it may be asked again then; 0: not said */
};

struct api_handlers {
        /* 0: *ret is the answer. 1: api_call_answer() follows. */
        int (*request)(const struct api_request *r, struct api_answer *ret, void *userdata);
        /* Whether this call reads the body that comes with it. NULL: none does. */
        bool (*takes_body)(const char *method, const char *path);
        /* The client of a waiting call is gone, or the API ends: do not answer it any more. */
        void (*abandoned)(struct api_call *call, void *userdata);
};

struct api;
struct api_tls;
/* listen_fd is taken over, also on failure. tls (NULL: a Unix socket) and handlers borrowed. */
int api_new(sd_event *e, int listen_fd, struct api_tls *tls, const struct api_handlers *h, void *userdata,
            struct api **ret);
struct api *api_free(struct api *a);
DEFINE_CLEANUP(struct api *, api_free)

/* Answers a waiting call; each call once. Takes answer->body over. */
void api_call_answer(struct api_call *call, const struct api_answer *answer);
