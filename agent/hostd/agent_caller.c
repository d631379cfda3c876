/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may make which call of the API, and the trace that acting calls leave. On the Unix socket the kernel
 * says who it is: everybody may read, and each acting call decides by uid. Over TCP a certificate says it, and
 * the site's lists ([Api] of hostd.conf) decide once for all calls: who is trusted with acting there stands
 * for everybody's runs, as root does here.
 */
#include "agent_calls.h"
#include "log.h"

#define REFUSALS_A_MINUTE 10 /* that become events of their own */

const char *agent_caller_text(const struct http_caller *c, char buf[static AGENT_CALLER_MAX]) {
        if (!c->remote)
                (void) snprintf(buf, AGENT_CALLER_MAX, "uid %u (pid %d)", (unsigned) c->peer.uid,
                                (int) c->peer.pid);
        else
                (void) snprintf(buf, AGENT_CALLER_MAX, "%s from %s", c->name[0] ? c->name : "a stranger",
                                c->address);
        return buf;
}

bool agent_caller_is_root(const struct http_caller *c) {
        return !c->remote && c->peer.uid == 0;
}

bool agent_caller_may_order(const struct http_caller *c) {
        return c->remote ? c->acts : c->peer.uid == 0;
}

/* --- The trace ----------------------------------------------------------------------------------------- */

void agent_audit(struct agent *a, const char *call, const struct http_caller *who, const char *result) {
        const char *name = who->name[0] ? who->name : "a stranger";
        char uid[20];

        (void) snprintf(uid, sizeof(uid), "uid %u", (unsigned) who->peer.uid);
        (void) agent_emit(a,
                          EVENT_OF(API_ACTED, .call = call, .caller = who->remote ? name : uid,
                                   .uid = who->remote ? EVENT_ABSENT : (int64_t) who->peer.uid,
                                   .pid = who->remote ? EVENT_ABSENT : who->peer.pid,
                                   .address = who->remote ? who->address : NULL, .status = EVENT_ABSENT,
                                   .result = result),
                          NULL);
}

/* Counted apart, so that strangers on the network do not hide what is refused to people of this host. */
static bool refusal_is_told(struct agent *a, bool remote) {
        usec_t now = host_now(a->host);

        if (a->refusals[remote].since == 0 || now >= a->refusals[remote].since + 60 * USEC_PER_SEC) {
                a->refusals[remote].since = now;
                a->refusals[remote].n = 0;
        }
        return a->refusals[remote].n++ < REFUSALS_A_MINUTE;
}

/*
 * Anybody can be refused as often as he likes, and each event costs room in the spool: beyond some a minute
 * the journal alone tells, which limits its own rate; that limit is not for strangers to use up.
 */
void agent_audit_refusal(struct agent *a, const char *call, const struct http_caller *who,
                         const char *result) {
        char caller[AGENT_CALLER_MAX];

        if (refusal_is_told(a, who->remote))
                agent_audit(a, call, who, result);
        else if (!who->remote || who->name[0])
                log_notice("%s called %s: %s", agent_caller_text(who, caller), call, result);
}

/* --- What is refused before any call is looked at ------------------------------------------------------ */

/* What a stranger wrote, for people to read. */
static void copy_plain(char *buf, size_t size, const char *method, const char *path) {
        (void) snprintf(buf, size, "%.8s %.48s", method, path);
        for (char *c = buf; *c; c++)
                if (*c < ' ' || *c > '~')
                        *c = '?';
}

static bool reads_only(const char *method) {
        return streq(method, "GET") || streq(method, "HEAD");
}

static void refuse_stranger(struct agent *a, const struct http_request *r, const char *what) {
        char caller[AGENT_CALLER_MAX];

        if (!reads_only(r->method))
                agent_audit_refusal(a, what, r->caller, r->denied);
        else if (refusal_is_told(a, true))
                log_notice("%s called %s: %s", agent_caller_text(r->caller, caller), what, r->denied);
}

bool agent_caller_is_refused(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        char what[64];

        copy_plain(what, sizeof(what), r->method, r->path);
        if (r->denied && !(reads_only(r->method) && streq(r->path, "/healthz"))) {
                refuse_stranger(a, r, what);
                return agent_answer_error(ret, 403,
                                          "a certificate of ClientCa= whose URI AllowReaders= or AllowActors= "
                                          "lists: hostd.conf of the host that answers",
                                          "%s", r->denied) == 0;
        }
        if (!r->caller->remote || r->caller->acts || reads_only(r->method))
                return false;
        agent_audit_refusal(a, what, r->caller, "refused: no right to act");
        return agent_answer_error(ret, 403, "AllowActors= in hostd.conf of the host that answers",
                                  "'%.200s' may read, but not act", r->caller->name) == 0;
}

int agent_refuse(struct agent *a, const struct http_request *r, struct http_reply *ret, const char *what,
                 unsigned status, const char *why, const char *remedy) {
        char plain[64];

        copy_plain(plain, sizeof(plain), r->method, r->path);
        agent_audit_refusal(a, what ? what : plain, r->caller, why);
        return agent_answer_error(ret, status, remedy, "%s", why);
}

/* --- Calls that are answered later --------------------------------------------------------------------- */

void *agent_call_new(struct agent *a, const struct http_request *r, size_t size, const char *what) {
        struct agent_call *c = calloc(1, size);

        if (!c)
                return NULL;
        *c = (struct agent_call){
                .agent = a, .caller = *r->caller, .next = a->calls, .previous = &a->calls
        };
        (void) snprintf(c->what, sizeof(c->what), "%s", what);
        if (c->next)
                c->next->previous = &c->next;
        a->calls = c;
        http_hold(r, &c->held);
        return c;
}

void agent_call_free(struct agent_call *c) {
        *c->previous = c->next;
        if (c->next)
                c->next->previous = c->previous;
        if (c->clear)
                c->clear(c);
        free(c);
}

void agent_call_answer(struct agent_call *c, const struct http_reply *reply) {
        http_answer(c->held, reply);
        agent_call_free(c);
}

void agent_calls_clear(struct agent *a) {
        while (a->calls)
                agent_call_free(a->calls);
}
