/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whom a host asks, when, and whose answers count (docs/registry.md, How a host asks). Pure: time and chance
 * are arguments, time is the boot clock's.
 *
 * Up to four collectors are asked in rounds. One that fails, or that names another as the leader, is
 * followed by the next at once, and each is asked once in a round; only when a whole round has failed this
 * host waits, a quarter of the lease at most: so a new leader hears of all hosts well within one lease. An
 * answer with a smaller term than the same store has said before is of a collector that led before, and does
 * not count.
 */
#include "config.h"

#define COURSE_URL_MAX 256
#define COURSE_STORES_MAX 4 /* of which terms are remembered: one for each collector */
#define COURSE_STORE_MAX 41 /* the name of a store with its NUL */
#define COURSE_WHY_MAX 256

enum sync_failure {
        SYNC_SILENT,   /* no whole answer */
        SYNC_AWAY,     /* an answer that says: not here, or not now */
        SYNC_NONSENSE, /* its answer cannot be used */
        SYNC_REFUSED,  /* it will not have this host: a person has to act, and it is asked once a minute */
};

struct sync_course {
        char urls[CONFIG_URLS_MAX][COURSE_URL_MAX]; /* without a slash at the end */
        size_t n, at;              /* at: who is asked next */
        size_t answered;           /* whose answer counted last; n: nobody's yet */
        unsigned asked;            /* bits of urls: asked in this round */
        unsigned silent;           /* bits of urls: gave no whole answer since somebody's counted */
        enum sync_failure mildest; /* of this round */
        bool named;                /* urls[at] is asked because another names it */
        unsigned rounds;           /* that failed in a row */
        usec_t lease, sent, claim_until;
        usec_t second;             /* when the answers were last counted from 0 */
        unsigned answers;          /* in that second */
        struct {
                char id[COURSE_STORE_MAX];
                uint64_t term, seen; /* seen: a number that grows; 0: the place is free */
        } stores[COURSE_STORES_MAX];
        uint64_t seen;
        char why[COURSE_WHY_MAX]; /* what this round met so far, each with its URL */
};

/* list: URLs with commas or blanks between. -EINVAL with why: none, more than four, one too long. */
int sync_course_init(struct sync_course *c, const char *list, usec_t lease, char why[static COURSE_WHY_MAX]);
const char *sync_course_url(const struct sync_course *c);
/* The first round begins with this URL; NULL, or none of urls: as they are given. */
void sync_course_prefer(struct sync_course *c, const char *url);

/* How long a collector may hold a sync: half of the lease. */
usec_t sync_course_hold(const struct sync_course *c);
/* How long an answer is waited for at most. Where there are several collectors, one whose machine is gone
 * must not cost the lease. */
usec_t sync_course_longest(const struct sync_course *c);
/* Counts an answer. A server that answers always and at once would be asked as fast as the network goes. */
bool sync_course_too_often(struct sync_course *c, usec_t now);

/*
 * How long urls[at] is waited for: full, or a quarter of the lease where it was silent before and nobody
 * names it as the leader: one that stands still with its connections open must not keep this host from the
 * next leader.
 */
usec_t sync_course_patience(const struct sync_course *c, usec_t full);
/* urls[at] is asked now. */
void sync_course_send(struct sync_course *c, usec_t now);
/*
 * urls[at] has answered what was sent last. -ESTALE: its term is smaller than one that this store has said:
 * nothing has changed, and it is to be taken for a failure.
 */
int sync_course_answer(struct sync_course *c, const char *store, uint64_t term, usec_t lease);
/*
 * urls[at] says who leads. True: that one is asked now. False: it is none of this host's endpoints, or was
 * asked in this round already; then why says it, and this one has failed.
 */
bool sync_course_follow(struct sync_course *c, const char *leader, char why[static COURSE_WHY_MAX]);
/*
 * urls[at] has failed. How long to wait until the next one is asked; least: what the server asks for. A
 * round that is over is restarted by sync_course_send().
 */
usec_t sync_course_failed(struct sync_course *c, enum sync_failure f, const char *why, usec_t least,
                          uint64_t chance);
/* Nobody of this round is left to be asked: what it met is in why, and the mildest of it in mildest. */
bool sync_course_is_over(const struct sync_course *c);
/* Something has failed since the last answer that counted. */
bool sync_course_fails(const struct sync_course *c);

/* The lease has certainly not ended: nine tenths of it, from before the sync was sent that was answered
 * last. */
bool sync_course_may_claim(const struct sync_course *c, usec_t now);
/* This host is no member, whatever was answered before. */
void sync_course_give_up_claim(struct sync_course *c);
/* The highest term of the store whose answer counted last. */
uint64_t sync_course_term(const struct sync_course *c);
