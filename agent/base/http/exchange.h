/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One POST at a time to one address, in the event loop, over a connection that is kept. The name in the URL is
 * looked up beside the loop. Nothing here blocks.
 */
#include <systemd/sd-event.h>

#include "base.h"

#define EXCHANGE_CONNECT_TIMEOUT (5 * USEC_PER_SEC)
#define EXCHANGE_URL_MAX 256  /* of the address alone */
#define EXCHANGE_PATH_MAX 768 /* path and query */

struct exchange;

struct exchange_answer {
        bool failed;     /* no whole answer: why says it */
        bool refused;    /* … and it is about certificates: a person has to act */
        const char *why; /* empty when not failed */
        long status;
        usec_t retry_after; /* what the server asks for; 0: nothing */
        const char *body;   /* valid inside done only */
        size_t len;
};

struct exchange_request {
        const char *path;         /* path and query, from the slash on */
        const char *content_type; /* NULL: application/json */
        const void *body;         /* copied; what begins like gzip is said to be gzip */
        size_t len;
        usec_t timeout; /* the answer is to come within it; 0: whenever it comes */
        const char *authorization; /* what the header of this name says; NULL: none */
};

struct exchange_options {
        const char *url; /* the address that the path of a request is put behind; a slash at its end is left out */
        const char *ca, *certificate, *key; /* files; NULL: the system's authorities, none */
        size_t answer_max;
        const char *user_agent;
        const char *name; /* of the event sources ("registry") */
        /*
         * A part of an answer with status 200, for who does not wait for its end; then it is not kept, and
         * answer_max bounds a part. Not to start, cancel or free an exchange from inside. False ends the
         * exchange. NULL: it is kept for done.
         */
        bool (*part)(const char *data, size_t len, void *userdata);
        void (*done)(const struct exchange_answer *a, void *userdata);
        void *userdata;
};

/* o's texts are borrowed. -EINVAL: url is none (http or https, no password), why says what; -ENOMEM. */
int exchange_new(sd_event *e, const struct exchange_options *o, struct exchange **ret, char why[static 256]);
struct exchange *exchange_free(struct exchange *x);
DEFINE_CLEANUP(struct exchange *, exchange_free)

/* q is copied. -EBUSY; -ENAMETOOLONG; -errno when nothing could be started. */
int exchange_start(struct exchange *x, const struct exchange_request *q);
bool exchange_at_work(const struct exchange *x);
/* The exchange at work ends without a word to done. */
void exchange_cancel(struct exchange *x);
/* Certificates are read anew; an exchange at work ends as a failure. */
void exchange_renew(struct exchange *x);
