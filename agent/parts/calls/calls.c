/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"

#include <assert.h>

#include "http_routes.h"
#include "log.h"
#include "utf8.h"

#define REFUSALS_A_MINUTE 10 /* that become events of their own */

struct calls_state {
        struct bus *bus;
        struct {
                usec_t since; /* the minute they are counted in */
                unsigned n;
        } refusals[2]; /* of acting calls: local, remote */
        struct late_call *waiting;
};

static struct calls_state *calls_of(const struct bus *b) {
        return bus_part(b, &calls_part);
}

/* --- Answers ------------------------------------------------------------------------------------------- */

int answer_json(struct http_reply *ret, unsigned status, json_t *v) {
        *ret = (struct http_reply){ 0 };
        api_reply(ret, status, v);
        return 0;
}

json_t *answer_instant(usec_t real) {
        char text[CLOCK_TEXT_MAX];

        return real > 0 ? json_string(clock_text(real, text)) : json_null();
}

json_t *answer_boot_instant(usec_t at, usec_t now, usec_t now_real) {
        if (at == 0)
                return json_null();
        if (at > now)
                return answer_instant(now_real + (at - now));
        return answer_instant(now_real - MIN(now - at, now_real));
}

int answer_error(struct http_reply *ret, unsigned status, const char *remedy, const char *fmt, ...) {
        char text[320];
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        (void) utf8_scrub(text, strlen(text)); /* it may show what came */
        *ret = (struct http_reply){ 0 };
        api_reply_error(ret, status, text, remedy);
        return 0;
}

/* --- Who calls ----------------------------------------------------------------------------------------- */

const char *caller_text(const struct http_caller *c, char buf[static CALLER_TEXT_MAX]) {
        if (!c->remote)
                (void) snprintf(buf, CALLER_TEXT_MAX, "uid %u (pid %d)", (unsigned) c->peer.uid,
                                (int) c->peer.pid);
        else
                (void) snprintf(buf, CALLER_TEXT_MAX, "%s from %s", c->name[0] ? c->name : "a stranger",
                                c->address);
        return buf;
}

bool caller_is_root(const struct http_caller *c) {
        return !c->remote && c->peer.uid == 0;
}

bool caller_may_order(const struct http_caller *c) {
        return c->remote ? c->acts : c->peer.uid == 0;
}

bool caller_may_see_stacks(const struct http_caller *c) {
        return c->remote || c->peer.uid == 0;
}

/* --- The trace ----------------------------------------------------------------------------------------- */

void call_audit(struct bus *b, const char *call, const struct http_caller *who, const char *result) {
        const char *name = who->name[0] ? who->name : "a stranger";
        char uid[20];

        (void) snprintf(uid, sizeof(uid), "uid %u", (unsigned) who->peer.uid);
        (void) bus_emit(b,
                          EVENT_OF(API_ACTED, .call = call, .caller = who->remote ? name : uid,
                                   .uid = who->remote ? EVENT_ABSENT : (int64_t) who->peer.uid,
                                   .pid = who->remote ? EVENT_ABSENT : who->peer.pid,
                                   .address = who->remote ? who->address : NULL, .status = EVENT_ABSENT,
                                   .result = result),
                          NULL);
}

/* Counted apart, so that strangers on the network do not hide what is refused to people of this host. */
static bool refusal_is_told(struct bus *b, bool remote) {
        usec_t now = host_now(b->host);

        if (calls_of(b)->refusals[remote].since == 0 ||
            now >= calls_of(b)->refusals[remote].since + 60 * USEC_PER_SEC) {
                calls_of(b)->refusals[remote].since = now;
                calls_of(b)->refusals[remote].n = 0;
        }
        return calls_of(b)->refusals[remote].n++ < REFUSALS_A_MINUTE;
}

/*
 * Anybody can be refused as often as he likes, and each event costs room in the spool: beyond some a minute
 * the journal alone tells, which limits its own rate; that limit is not for strangers to use up.
 */
void call_audit_refusal(struct bus *b, const char *call, const struct http_caller *who,
                         const char *result) {
        char caller[CALLER_TEXT_MAX];

        if (refusal_is_told(b, who->remote))
                call_audit(b, call, who, result);
        else if (!who->remote || who->name[0])
                log_notice("%s called %s: %s", caller_text(who, caller), call, result);
}

/* --- What is refused before any call is looked at ------------------------------------------------------ */

/* What a stranger wrote, for people to read. */
static void copy_plain(char *buf, size_t size, const char *method, const char *path) {
        (void) snprintf(buf, size, "%.8s %.48s", method, path);
        for (char *c = buf; *c; c++)
                if (*c < ' ' || *c > '~')
                        *c = '?';
}

static void refuse_stranger(struct bus *b, const struct http_request *r, const char *what) {
        char caller[CALLER_TEXT_MAX];

        if (!http_reads(r))
                call_audit_refusal(b, what, r->caller, r->denied);
        else if (refusal_is_told(b, true))
                log_notice("%s called %s: %s", caller_text(r->caller, caller), what, r->denied);
}

bool caller_is_refused(struct bus *b, const struct http_request *r, struct http_reply *ret) {
        char what[64];

        copy_plain(what, sizeof(what), r->method, r->path);
        if (r->denied && !(http_reads(r) && streq(r->path, "/healthz"))) {
                refuse_stranger(b, r, what);
                return answer_error(ret, 403,
                                          "a certificate of ClientCa= whose URI AllowReaders= or "
                                          "AllowActors= "
                                          "lists: hostd.conf of the host that answers",
                                          "%s", r->denied) == 0;
        }
        if (!r->caller->remote || r->caller->acts || http_reads(r))
                return false;
        call_audit_refusal(b, what, r->caller, "refused: no right to act");
        return answer_error(ret, 403, "AllowActors= in hostd.conf of the host that answers",
                                  "'%.200s' may read, but not act", r->caller->name) == 0;
}

int call_refuse(struct bus *b, const struct http_request *r, struct http_reply *ret, const char *what,
                 unsigned status, const char *why, const char *remedy) {
        char plain[64];

        copy_plain(plain, sizeof(plain), r->method, r->path);
        call_audit_refusal(b, what ? what : plain, r->caller, why);
        return answer_error(ret, status, remedy, "%s", why);
}

/* --- Calls that are answered later --------------------------------------------------------------------- */

void *late_call_new(struct bus *b, const struct http_request *r, size_t size, const char *what) {
        struct calls_state *all = calls_of(b);
        struct late_call *c = calloc(1, size);

        assert(size >= sizeof(*c));
        if (!c)
                return NULL;
        *c = (struct late_call){
                .bus = b, .caller = *r->caller, .next = all->waiting, .previous = &all->waiting
        };
        (void) snprintf(c->what, sizeof(c->what), "%s", what);
        if (c->next)
                c->next->previous = &c->next;
        all->waiting = c;
        http_hold(r, &c->held);
        return c;
}

void late_call_free(struct late_call *c) {
        *c->previous = c->next;
        if (c->next)
                c->next->previous = c->previous;
        if (c->clear)
                c->clear(c);
        free(c);
}

void late_call_answer(struct late_call *c, const struct http_reply *reply) {
        http_answer(c->held, reply);
        late_call_free(c);
}

size_t late_calls(const struct bus *b, void (*clear)(struct late_call *c)) {
        size_t n = 0;

        for (const struct late_call *c = calls_of(b)->waiting; c; c = c->next)
                n += c->clear == clear;
        return n;
}

/* --- The part ------------------------------------------------------------------------------------------ */

static void stop_calls(void *self) {
        struct calls_state *all = self;

        while (all->waiting)
                late_call_free(all->waiting);
}

const struct part calls_part = {
        .name = "calls",
        .size = sizeof(struct calls_state),
        .stop = stop_calls,
};
