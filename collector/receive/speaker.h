/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whom an agent speaks for: the host that its certificate is (HostFrom=), and no other. What it says of
 * another is refused, and the refusal is an event: one a minute of each certificate, so that nobody fills
 * the database with what he is refused. All are counted.
 */
#include "clock.h"
#include "counters.h"
#include "http_server.h"
#include "store.h"

#define SPEAKERS_TOLD 256
#define SPEAKER_WHY_MAX 256

struct speakers {
        bool proves; /* false: no TLS, or TrustAllAgents=yes: everybody speaks for everybody */
        struct store *store;
        const struct clock *clock;
        struct counters *counters;
        usec_t told[SPEAKERS_TOLD]; /* boot clock; 0: never; by a hash of the caller */
};

/* The host that the caller is; NULL: any. */
const char *speaker_host(const struct speakers *s, const struct http_caller *c);
/* "this caller is host A, and it speaks for host B" */
void speaker_words(const char *proved, const char *host, char ret[static SPEAKER_WHY_MAX]);
/* The event of a refusal, in a transaction of the caller's or (alone) one of its own. 1: stored; 0: said
 * before; or the store's error. */
int speaker_refused(struct speakers *s, const char *caller, const char *address, const char *call,
                    const char *why, bool alone);
