/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Gets this host its first certificate, and each later one before the last ends: asks the metadata server
 * for the instance's identity token, posts it with a request for a new key to the authority, and keeps key
 * and chain in one file, so that a crash can never leave a key beside the certificate of another one.
 * Nothing of it blocks the loop; what fails is tried again, for as long as it takes.
 *
 * Source of the token: Google Compute Engine documentation, "Verify the identity of VMs"
 * (instance/service-accounts/default/identity?audience=…&format=full, header Metadata-Flavor: Google).
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "certificate.h"

#define CERTIFICATE_FETCH_TIMEOUT (30 * USEC_PER_SEC)
#define CERTIFICATE_RETRY (5 * USEC_PER_SEC) /* at most, doubled with each failure up to … */
#define CERTIFICATE_RETRY_MAX (300 * USEC_PER_SEC)

struct certificate_fetch_options { /* texts are copied */
        const char *url;          /* of the authority */
        const char *audience;     /* of the token */
        const char *metadata;     /* address of the metadata server, metadata.h */
        const char *file;         /* where key and certificate go, 0600; its directory is there */
        const char *name;         /* subject of the certificate */
        const char *ca_file;      /* whom to believe that it is the authority; NULL or empty: the system's */
        const char *proxy;        /* to the authority; NULL or empty: none */
        const char *user_agent;
        /* A new file is there (error is NULL), or why not this time. */
        void (*done)(const char *error, void *userdata);
        void *userdata;
};

struct certificate_fetch;
/* -EINVAL: the URL is none. */
int certificate_fetch_new(sd_event *e, const struct certificate_fetch_options *o,
                          struct certificate_fetch **ret);
/* Drops what is at work. */
struct certificate_fetch *certificate_fetch_free(struct certificate_fetch *f);
DEFINE_CLEANUP(struct certificate_fetch *, certificate_fetch_free)

/*
 * To be called now and then, with the validity of the certificate in use (0: there is none, or it is not
 * usable): begins when it is time, which is at 60 to 66 % of its life.
 */
void certificate_fetch_look(struct certificate_fetch *f, usec_t now_real, usec_t not_before,
                            usec_t not_after);
/* Why there was none the last time; empty: it worked, or was not tried yet. */
const char *certificate_fetch_error(const struct certificate_fetch *f);
