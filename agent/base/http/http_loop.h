/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * libcurl's multi interface in an sd-event loop. What is sent, and what is done with the answer, is the
 * matter of who owns a transfer; here is what every HTTP client of ours shares: sockets, the timer, the options
 * that keep a transfer from ever blocking the loop or obeying the environment, the answer's body within a
 * bound, and TLS files.
 *
 * After an error of the multi handle, whose state is then unknown, all is built anew: every transfer loses
 * its easy handle, and those at work end with a failure.
 */
#include <curl/curl.h>
#include <systemd/sd-event.h>

#include "base.h"
#include "retry_after.h"
#include "tls_reason.h"

struct http_loop;

/*
 * One exchange at a time, used again for the next, so that the connection is kept. Lives inside its owner's
 * struct.
 */
struct http_transfer {
        CURL *easy;   /* NULL: http_transfer_prepare() makes it; the owner sets its options on it */
        bool at_work; /* between http_transfer_start() and done */
        CURLcode code; /* how the last exchange ended, for who must tell failures apart */
        char why[CURL_ERROR_SIZE]; /* libcurl's words about this very failure, with times and names; may be empty */
        char tls[TLS_REASON_MAX]; /* why TLS failed during this exchange, when that is known; else empty */
        char retry_after[BACKOFF_RETRY_AFTER_TEXT]; /* the header's value, or empty */
        char *answer; /* its body, of len bytes; valid until done returns, who may take it over. NULL: none */
        size_t len;
        size_t received, size, answer_max, answer_kept; /* inside only */
        /* The exchange ended. error: NULL, or why there is no whole answer. May start the next one, not free t. */
        void (*done)(struct http_transfer *t, const char *error);
        struct http_loop *loop;
        struct http_transfer *next;
};

struct http_options {
        const char *user_agent;
        const char *proxy; /* URL; NULL: none, whatever the environment says */
        usec_t connect_timeout, timeout; /* timeout: of the whole exchange */
        size_t answer_max;  /* of an answer's body; more ends the exchange with CURLE_WRITE_ERROR */
        size_t answer_kept; /* of that, how much is kept for done; 0: all */
        bool posts; /* by POST; the connection is kept for half an hour */
};

/* name: of the event sources ("uplink"). */
int http_loop_new(sd_event *e, const char *name, struct http_loop **ret);
/* Drops the transfers that were added; done is not called. */
struct http_loop *http_loop_free(struct http_loop *l);
DEFINE_CLEANUP(struct http_loop *, http_loop_free)

/* Makes t (done is set, the rest empty) one of the loop's, until the loop is freed. */
void http_loop_add(struct http_loop *l, struct http_transfer *t);
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
/* PEM files for https; NULL or "": the system's authorities, no certificate. -EIO. */
int http_transfer_set_tls(struct http_transfer *t, const char *ca, const char *certificate, const char *key);
/* What libcurl calls with a part of the body: for owners that look at it first (CURLOPT_WRITEFUNCTION). */
size_t http_transfer_keep(char *data, size_t size, size_t n, void *transfer);
/* Another limit of the whole exchange, from the next start on. -EIO. */
int http_transfer_set_timeout(struct http_transfer *t, usec_t timeout);
/*
 * Closes every connection and begins anew: what a client authenticates with has changed. Exchanges at work
 * end as failures.
 */
void http_loop_renew(struct http_loop *l);
/* -EBUSY: the last exchange has not ended; -EIO. */
int http_transfer_start(struct http_transfer *t);
/*
 * In done: whether the exchange failed because one side does not believe the other's certificate; then t->why says so,
 * where libcurl's own words may tell of a connection reset alone.
 */
bool http_transfer_about_certificates(struct http_transfer *t);
