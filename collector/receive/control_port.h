/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * POST /registry/v1/sync at the agents' port (docs/registry.md): between HTTP and the registry. Errors are
 * {"error", "remedy"}.
 */
#include <jansson.h>

#include "capture_words.h"
#include "clock.h"
#include "counters.h"
#include "episodes.h"
#include "first_word.h"
#include "http_server.h"
#include "pace.h"
#include "registry.h"
#include "store.h"
#include "store_episodes.h"

/*
 * Whom an agent speaks for: the host that its certificate is (HostFrom=), and no other. What it says of
 * another is refused, and the refusal is an event: one a minute of each certificate, so that nobody fills
 * the database with what he is refused. All are counted.
 */
#define SPEAKERS_TOLD 256

struct speakers {
        bool proves; /* false: no TLS, or TrustAllAgents=yes: everybody speaks for everybody */
        struct store *store;
        const struct clock *clock;
        struct counters *counters;
        usec_t told[SPEAKERS_TOLD]; /* boot clock; 0: never; by a hash of the caller */
};

/* The event of a refusal, in a transaction of the caller's or (alone) one of its own. 1: stored; 0: said
 * before; or the store's error. */
int speaker_refused(struct speakers *s, const char *caller, const char *address, const char *call,
                    const char *why, bool alone);

#define SYNC_PORT_PATH "/registry/v1/sync"

/* True: this collector does not lead, and the reply says so (421, 503). */
bool sync_port_elsewhere(struct registry *r, struct http_reply *reply);
void sync_port_handle(struct registry *r, struct speakers *s, const struct http_request *q,
                      struct http_reply *reply);
/* control_registry_options.answer: call is a struct http_call. */
void sync_port_answer(void *call, unsigned status, struct registry_body *body, void *userdata);

/*
 * POST /registry/v1/capture at the agents' port (docs/registry.md): one host's part of a capture, as bytes.
 * What is asked about it is in the query; the bytes are kept as they came, and read in a process of their
 * own (episodes).
 */

#define CAPTURE_PORT_PATH "/registry/v1/capture"

struct episodes;

/* True: it may be stored. Else the reply is complete. */
bool capture_port_accept(const struct http_request *q, const struct registry *r, struct speakers *s,
                         struct episodes *e, usec_t now, struct capture_words *ret,
                         struct http_reply *reply);
/* Into the store, in a transaction: 1; 0: a repeat; -EDQUOT: the host sends too many; or the store's. */
int capture_port_store(struct store *s, const struct capture_words *w, const void *data, size_t len,
                       usec_t now);
/* The answer after that: what store said, why in words of a failure. */
void capture_port_reply(struct http_reply *reply, unsigned status, const char *why);

/* Between the registry's records and the episodes. */

/* A record was published: the episodes receive those of capture/, run/ and episode/. */
void episode_port_record(struct episodes *e, const struct gang *g, const char *key, const json_t *value);

/*
 * The figures of syncs (docs/registry.md), given to pace.h; the host that it names becomes the event
 * tpu.run.straggler under that host. A new leader starts its windows again.
 */

/* list: of registry.h's figures(); what cannot be understood of one run is not the others'. who->host is
 * set here. 1: an event was stored; 0; -ENOMEM, the store's, outside of a transaction. */
int pace_port_figures(struct pace *p, struct store *s, const struct pace_source *who, const json_t *list,
                      usec_t now);

/*
 * What hosts say of their sockets with their figures, given to first_word.h; what it says becomes the event
 * tpu.run.first_word under the host that it names.
 */

/* 0; -ENOMEM. */
int first_word_port_figures(struct first_words *w, const struct pace_source *who, const json_t *list,
                            usec_t now);
/* Judges what is due. 1: an event was stored; 0; -ENOMEM, the store's, outside of a transaction. */
int first_word_port_judge(struct first_words *w, struct store *s, const struct gang *g, usec_t now);
