/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * libcurl's multi interface in an sd-event loop. What is sent, and what is done with the answer, is the
 * matter of who owns a transfer; here is what every HTTP client of a daemon shares: sockets, the timer, and
 * the options that keep a transfer from ever blocking the loop or obeying the daemon's environment.
 *
 * After an error of the multi handle, whose state is then unknown, all is built again: every transfer loses
 * its easy handle, and those at work end with a failure.
 */
#include <curl/curl.h>
#include <systemd/sd-event.h>

#include "base.h"

#define TLS_REASON_MAX 200

struct http_loop;

/*
 * One exchange at a time, used again for the next, so that the connection is kept. Lives inside its owner's
 * struct.
 */
struct http_transfer {
        CURL *easy;   /* NULL: http_transfer_prepare() makes it; the owner sets its options on it */
        bool at_work; /* between http_transfer_start() and done */
        CURLcode code; /* how the last exchange ended, for who must tell failures apart */
        /* libcurl's words about this very failure, with times and names; may be empty */
        char why[CURL_ERROR_SIZE];
        char tls[TLS_REASON_MAX]; /* why TLS failed during this exchange, when that is known; else empty */
        /* The exchange ended. error: NULL, or why there is no whole answer. May start the next one. */
        void (*done)(struct http_transfer *t, const char *error);
        struct http_loop *loop;
        struct http_transfer *next;
};

struct http_options {
        const char *user_agent;
        const char *proxy; /* URL; NULL: none, whatever the environment says */
        usec_t connect_timeout, timeout; /* timeout: of the whole exchange */
};

/* name: of the event sources ("uplink"). */
int http_loop_new(sd_event *e, const char *name, struct http_loop **ret);
/* Drops the transfers that were added; done is not called. */
struct http_loop *http_loop_free(struct http_loop *l);
DEFINE_CLEANUP(struct http_loop *, http_loop_free)

/* Makes t (done is set, the rest empty) one of the loop's, until the loop is freed. */
void http_loop_add(struct http_loop *l, struct http_transfer *t);
/* Not from inside of done, or of any callback of libcurl's. An exchange at work ends without done. */
void http_loop_remove(struct http_loop *l, struct http_transfer *t);
/*
 * Makes the easy handle if there is none: HTTP only, no proxy, no redirects, no signals,
 * TLS 1.2 and later with the system's authorities. Returns 1 when it
 * was made and the owner's own options are still to be set, 0 when it was there, -ENOMEM or -EIO.
 */
int http_transfer_prepare(struct http_transfer *t, const struct http_options *o);
/* Gives the easy handle up: an owner whose options could not be set does, so that none is used without them.
 */
void http_transfer_drop(struct http_transfer *t);
/* The exchange at work ends, and its connection with it; done is not called. */
void http_transfer_cancel(struct http_transfer *t);
/* Another limit of the whole exchange, from the next start on. -EIO. */
int http_transfer_set_timeout(struct http_transfer *t, usec_t timeout);
/*
 * Closes every connection and starts again: what a client authenticates with has changed. Exchanges at work
 * end as failures.
 */
void http_loop_renew(struct http_loop *l);
/* -EBUSY: the last exchange has not ended; -EIO. */
int http_transfer_start(struct http_transfer *t);
/*
 * In done: whether the exchange failed because one side does not believe the other's certificate; then
 * t->why says so, where libcurl's own words may tell of a connection reset alone.
 */
bool http_transfer_about_certificates(struct http_transfer *t);
