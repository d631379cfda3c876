/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the calls of the query API are made with, in every part that has some: answers, who may make which
 * call, the trace that acting calls leave, and calls that are answered later. On the Unix socket the kernel
 * says who calls: everybody may read, and each acting call decides by uid. Over TCP a certificate says it,
 * and the site's lists ([Api] of hostd.conf) decide once for all calls: who may act there acts for
 * everybody's runs, as root does here.
 */
#include "part.h"

extern const struct part calls_part;

/* --- Answers: return 0 --------------------------------------------------------------------------------- */

/* The reference is taken over; NULL: out of memory. */
int answer_json(struct http_reply *ret, unsigned status, json_t *v);
/* An instant of the real clock; null: there is none. */
json_t *answer_instant(usec_t real);
/* An instant of the boot clock as one of the real clock; null: at is 0. now and now_real: the same
 * instant. */
json_t *answer_boot_instant(usec_t at, usec_t now, usec_t now_real);
/* remedy may be NULL. */
int answer_error(struct http_reply *ret, unsigned status, const char *remedy, const char *fmt,
                 ...) _printf_(4, 5);

/* --- Who calls ----------------------------------------------------------------------------------------- */

#define CALLER_TEXT_MAX 360
/* "uid 0 (pid 12)" or "spiffe://site/x from 10.0.0.7". Returns buf. */
const char *caller_text(const struct http_caller *c, char buf[static CALLER_TEXT_MAX]);
/* Root of this very host. */
bool caller_is_root(const struct http_caller *c);
/* Who may decide about everybody's runs on this host. */
bool caller_may_order(const struct http_caller *c);
/* Who may see the stacks of everybody's runs: root, and whom the site lets read over TLS. */
bool caller_may_see_stacks(const struct http_caller *c);

/* --- The trace ----------------------------------------------------------------------------------------- */

/* The event of an acting call. */
void call_audit(struct bus *b, const char *call, const struct http_caller *who, const char *result);
/* The same of a refused one: beyond some a minute it goes to the journal alone. */
void call_audit_refusal(struct bus *b, const char *call, const struct http_caller *who, const char *result);
/* Says why to the caller and in the trace. what: NULL: method and path. Returns 0. */
int call_refuse(struct bus *b, const struct http_request *r, struct http_reply *ret, const char *what,
                unsigned status,
                const char *why, const char *remedy);
/* What no call needs to look at: strangers, and readers who would act. True: *ret says why. */
bool caller_is_refused(struct bus *b, const struct http_request *r, struct http_reply *ret);

/* --- Calls that are answered later --------------------------------------------------------------------- */

/* The first member of what a call keeps while it waits. */
struct late_call {
        struct bus *bus;
        struct http_call *held; /* NULL: nobody waits any more */
        struct late_call *next, **previous;
        struct http_caller caller;
        char what[128];
        void (*clear)(struct late_call *c); /* what is behind it; NULL: nothing to do */
};

/* Of size bytes, 0 behind the first member. NULL: out of memory. */
void *late_call_new(struct bus *b, const struct http_request *r, size_t size, const char *what);
void late_call_free(struct late_call *c);
/* Frees it, too. */
void late_call_answer(struct late_call *c, const struct http_reply *reply);
/* How many wait that have this clear. */
size_t late_calls(const struct bus *b, void (*clear)(struct late_call *c));
