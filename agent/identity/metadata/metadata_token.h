/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The instance token of this host (instance_token.h), from the metadata server: asked for at the start, and
 * again ten minutes before it ends; once a minute at most while there is none. It is written where requests
 * take it from, and nowhere else.
 */
#include "exchange.h"
#include "metadata.h"

#define METADATA_AUDIENCE_MAX 200
/* Whether text can be one: a URL, as a rule. */
bool metadata_audience_is_valid(const char *text);

struct metadata_token_options {
        const char *address, *user_agent; /* as of metadata_options */
        const char *audience; /* whom it is for */
        struct exchange_bearer *bearer; /* written; stays where it is */
        void (*decided)(void *userdata); /* there is one now, or the first answer was none */
        void *userdata;
};

/* In how long the next one is asked for; the server may well give the same until it is old enough. Pure. */
usec_t metadata_token_renewal(usec_t expires, usec_t now);

struct metadata_token;
/* -EINVAL: the address or the audience is none. */
int metadata_token_new(sd_event *e, const struct metadata_token_options *o, struct metadata_token **ret);
struct metadata_token *metadata_token_free(struct metadata_token *t);
DEFINE_CLEANUP(struct metadata_token *, metadata_token_free)

struct metadata_token_status {
        usec_t expires; /* real clock; 0: none was there yet */
        char why[METADATA_WHY_MAX + 64]; /* the last answer was none; empty: it was one, or is still open */
};
void metadata_token_get_status(const struct metadata_token *t, struct metadata_token_status *ret);
