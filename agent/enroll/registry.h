/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The registry as an agent sees it (docs/registry.md): it says what the host is, and receives records.
 * POST /registry/v1/sync, one request at a time, says what this host is, renews its lease and is held by the
 * server until there is news. When what is said has changed, the held request is ended, and the next one
 * says it at once. Asynchronous in the event loop; nothing here blocks. A registry that is away changes
 * nothing: records that it sent stay believed, and `away` says since when.
 */
#include <jansson.h>
#include <systemd/sd-event.h>

#include "config.h"

enum registry_kind {
        REGISTRY_NONE,
        REGISTRY_STATIC,
        REGISTRY_COLLECTOR,
        _REGISTRY_KIND_MAX,
};
const char *registry_kind_name(enum registry_kind k);
int registry_kind_parse(const char *name, enum registry_kind *ret); /* -EINVAL */

struct registry_options { /* texts are borrowed until registry_free() */
        enum registry_kind kind; /* static: membership is what the identity says, and nobody is asked */
        const char *endpoints; /* URLs of one to four collectors, with commas or blanks between */
        /* Of these URLs: who is asked first, for it led last; NULL, or none of them: the first one. */
        const char *first;
        const char *tenant;    /* which of the fleets this host belongs to */
        const char *ca, *certificate, *key, *crl; /* files; NULL: none. Read again by registry_renew() */
        const struct exchange_bearer *bearer; /* exchange.h; borrowed; NULL: none */
        usec_t splay; /* the first sync is sent within this time, so that a fleet does not come at once */
        const char *slice; /* whose records are wanted */
        unsigned worker;
};

enum registry_state {
        REGISTRY_JOINING, /* never reached since start */
        REGISTRY_MEMBER,
        REGISTRY_CONFLICT, /* reached, but the worker id is another machine's */
        REGISTRY_AWAY,     /* not reached; what it sent stays believed */
        REGISTRY_REFUSED,  /* it answers, but will not have us: certificate, version, address */
        _REGISTRY_STATE_MAX,
};
const char *registry_state_name(enum registry_state s);

struct registry_status {
        enum registry_state state;
        usec_t since;   /* boot clock */
        bool may_claim; /* the lease has certainly not ended yet */
        char why[256];  /* with the address that was asked; of a member: the URL of who leads */
};

struct registry_events {
        /* A record that this host shall know has changed. NULL: gone. */
        void (*record)(const char *key, const json_t *value, void *userdata);
        void (*status)(const struct registry_status *s, void *userdata);
        /* The first whole answer has been handed over: what was not in it is not there. */
        void (*complete)(void *userdata);
        /* The second on the clock of the collector at which an answer was made; NULL: nobody listens. */
        void (*clock)(usec_t real, void *userdata);
        /* What people should know and what changes nothing; NULL: nobody listens. */
        void (*notice)(const char *text, void *userdata);
};

struct registry;

/* -EINVAL with *why. No handler is called before the loop runs. */
int registry_new(sd_event *e, const struct registry_options *o, const struct registry_events *events,
                 void *userdata, struct registry **ret, char why[static 256]);
struct registry *registry_free(struct registry *r);
DEFINE_CLEANUP(struct registry *, registry_free)

/* What this host is from now on (the record `member/`); the reference stays the caller's. Joins at first.
 * news: it is said at once, for which the question that is held ends, and its connection; else with the next
 * one. */
int registry_say(struct registry *r, const json_t *member, bool news);
/*
 * Says that this host is shut down, and its runs with it: the others need not wait for its lease to end.
 * Best effort; the loop has to go on until registry_has_left(): it was answered, or cannot be said.
 */
void registry_leave(struct registry *r);
bool registry_has_left(const struct registry *r);
/* Certificates may have changed. */
void registry_renew(struct registry *r);
/*
 * How far the runs of this host are (docs/registry.md, figures; an array, NULL: nothing runs): what the next
 * syncs carry. No news, and no sync of its own. A reference is kept: the caller does not change it
 * afterwards. -EINVAL: no array.
 */
int registry_figures(struct registry *r, const json_t *figures);
/* The highest term that the store of the collector which answered last has said; 0: none yet, or it has no
 * terms. */
uint64_t registry_term(const struct registry *r);
/*
 * error: 0, then status is the answer's; or -errno with why and no status. term: the one in which it was
 * posted. Not called when the registry is freed or this host leaves meanwhile.
 */
typedef void (*registry_post_done)(int error, unsigned status, uint64_t term, const char *why,
                                   void *userdata);
/*
 * Posts a body to the collector that answered the last sync; one at a time. The body is copied; one that
 * begins like gzip is said to be gzip. path_and_query begins with a slash. -EBUSY; -ENOTCONN: no sync was
 * answered yet, or this registry is static; -ENAMETOOLONG.
 */
int registry_post(struct registry *r, const char *path_and_query, const char *content_type, const void *body,
                  size_t len, registry_post_done done, void *userdata);
