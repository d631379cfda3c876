/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * HTTP POST in an sd-event loop by libcurl's multi interface: one easy handle a slot, used again, so that
 * the connection is kept. At most one request a slot at a time. Proxy variables of the environment are
 * ignored. An answer's body is kept up to SENDER_BODY_MAX bytes; one longer than SENDER_ANSWER_MAX ends
 * the exchange as a failure. After an error of the multi handle, whose state is then unknown, all is built
 * anew and the requests at work fail.
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "tls_files.h"

#define SENDER_SLOTS_MAX 4
#define SENDER_BODY_MAX (16 * 1024)
#define SENDER_ANSWER_MAX \
        (4 * 1024 * 1024) /* OTLP specification 1.11: what a client should at most accept */

struct sender_answer {
        bool failed;                 /* no whole answer: text says why */
        bool certificate;            /* … and it is about certificates: a person has to act */
        bool cut_off;                /* … and it hung up while we sent: its reason may be lost with that */
        bool unsent;                 /* … and the request was never sent */
        char text[256];
        long status;
        const char *content_type;    /* NULL: none */
        char retry_after[64];        /* the header's value, or empty */
        const void *body;            /* valid inside done only */
        size_t len;
};

struct sender;

struct sender_options {
        const char *user_agent; /* copied, as all texts */
        const char *proxy;      /* NULL: none */
        usec_t connect_timeout, timeout;
        /* A request ended. May start the slot's next one. */
        void (*done)(size_t slot, const struct sender_answer *a, void *userdata);
        void *userdata;
};

int sender_new(sd_event *e, const struct sender_options *o, struct sender **ret);
/* Drops requests at work; done is not called. */
struct sender *sender_free(struct sender *s);
DEFINE_CLEANUP(struct sender *, sender_free)

struct sender_request {
        const char *url;
        const char *header; /* one whole header line (copied, cut at 127 bytes) */
        const void *data;   /* application/x-protobuf; borrowed until done */
        size_t len;
        bool gzip;                   /* data is packed */
        bool careful; /* the body only goes when the other side asked for it, or said nothing for 1 s: one that
                         hangs up at once, as for our certificate, can say why before it is written to */
        const char *addresses; /* of the URL's host (or of the proxy), lookup.h; NULL: it is an address */
        const struct tls_files *tls; /* judged good; for https */
};

/*
 * -EBUSY: the slot has a request; -EINVAL: the URL is none; -ENOMEM, -EIO: could not be started.
 */
int sender_post(struct sender *s, size_t slot, const struct sender_request *r);
/* Closes all connections: what they were made with has changed. Requests at work end as failures. */
void sender_renew(struct sender *s);
