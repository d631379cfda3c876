/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The HTTP client of all daemons: one request at a time to one address, in the event loop, over a connection
 * that is kept. The name in the URL is looked up beside the loop, again in the background when its address
 * is half an hour old, or 10 s and an exchange has failed. Nothing here blocks.
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
        bool cut_off;    /* … and it hung up while we sent: its reason may be lost with that */
        bool unsent;     /* … and the request was never sent */
        bool unnamed;    /* … because the name could not be looked up */
        const char *why; /* empty when not failed; what: the same without names and times, alike each time */
        const char *what;
        long status;
        usec_t retry_after; /* what the server asks for, an hour at most; 0: nothing */
        const char *content_type; /* NULL: none */
        const char *body;         /* valid inside done only */
        size_t len;
};

struct exchange_request {
        const char *path;         /* path and query, from the slash on */
        const char *content_type; /* NULL: application/json */
        /* copied, unless lent; what begins like gzip is said to be gzip. NULL: a GET */
        const void *body;
        size_t len;
        bool lent;          /* the body stays where it is until done */
        usec_t timeout;     /* the answer is to come within it; 0: whenever it comes */
        const char *header; /* more header lines, whole, "\n" between them; NULL: none */
        /* the body only goes when the other side asked for it, or said nothing for 1 s: one that hangs up at
         * once, as for our certificate, can say why before it is written to */
        bool careful;
};

/*
 * A secret that goes with every request over https, and changes while exchanges live: an instance token.
 * Whoever writes it outlives them.
 */
struct exchange_bearer {
        bool awaited; /* it is not known yet whether there is one: requests over https fail until then */
        char header[4200]; /* the whole line; empty: there is none, and requests go without */
};

struct exchange_options {
        /* the address that the path of a request is put behind; a slash at its end is left out */
        const char *url;
        const char *proxy; /* URL; NULL: none, whatever the environment says */
        /* The address that is connected to, whatever the name in url, and the own one that this goes from.
         * NULL: the name is looked up; the kernel chooses. */
        const char *to, *from;
        /* files; NULL, or empty: the system's authorities, none */
        const char *ca, *certificate, *key, *crl;
        /* of the same address: its connections and lookups are shared. Freed after this one */
        struct exchange *beside;
        const struct exchange_bearer *bearer; /* NULL: none */
        usec_t connect_timeout;  /* 0: EXCHANGE_CONNECT_TIMEOUT */
        size_t answer_max;       /* a longer answer is a failure */
        size_t keep;             /* only so much of it is kept, from its beginning; 0: all */
        const char *user_agent;
        const char *name; /* of the event sources ("registry") */
        /*
         * A part of an answer with status 200, for who does not wait for its end; then it is not kept, and
         * answer_max bounds a part. Not to start, cancel or free an exchange from inside. False ends the
         * exchange. NULL: it is kept for done.
         */
        bool (*part)(const char *data, size_t len, void *userdata);
        /* A header line of the answer, with its end. May be NULL. */
        void (*header)(const char *line, size_t len, void *userdata);
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
/* Certificates are read again; an exchange at work ends as a failure, as do those that share its
 * connections. */
void exchange_renew(struct exchange *x);
