/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <time.h>

#include "clock.h"
#include "fnv.h"
#include "http_connection.h"
#include "log.h"
#include "loop_timer.h"

#define ACCURACY USEC_PER_SEC
#define SPARE_CONNECTIONS 8 /* what is ended is gone a moment later */

struct http_connection {
        struct http_connection *next, *previous; /* of its phase */
        enum http_phase phase;
        usec_t until; /* boot clock; USEC_INFINITY: it waits for us, or was shut down */
        int fd;       /* borrowed */
        struct MHD_Connection *mhd;
        struct http_caller caller;
        struct http_connection *newer, *older; /* of the strangers */
        enum { STRANGER, ACCEPTED, CROWDED, DENIED } standing;
        uint16_t *count; /* where it counts; NULL: nowhere */
        /* With TLS: */
        struct server_credentials *credentials;
        usec_t ends;         /* boot clock: an answer from then on is its last */
        bool checked, reads; /* checked: against what had changed so often: */
        unsigned changes;
        usec_t not_after;      /* real clock: of its certificate */
        char why[TLS_WHY_MAX]; /* it may not */
        struct tls_proof *proof; /* by instance tokens; NULL: its certificate says which host it is */
};

static usec_t now(const struct http_connections *all) {
        usec_t usec = 0;

        (void) sd_event_now(all->event, CLOCK_BOOTTIME, &usec); /* fails only in a forked child */
        return usec;
}

/* --- Deadlines ----------------------------------------------------------------------------------------- */

static usec_t time_of(const struct http_connections *all, enum http_phase phase) {
        switch (phase) {
        case HTTP_PHASE_HEADER:
                return all->o->header_time;
        case HTTP_PHASE_BODY:
                return all->o->body_time;
        case HTTP_PHASE_ANSWER:
                return all->o->answer_time;
        case HTTP_PHASE_WAITS:
        case _HTTP_PHASE_MAX:
                break;
        }
        return USEC_INFINITY;
}

static void arm_deadline(struct http_connections *all, usec_t at) {
        int r;

        if (!all->timer)
                return;
        all->armed = at;
        r = loop_timer_at(all->timer, at);
        if (r < 0)
                (void) log_warning_errno(r, "%s: slow connections may stay open: %m", all->o->name);
}

static void leave(struct http_connections *all, struct http_connection *c) {
        struct http_line *l = &all->lines[c->phase];

        *(c->previous ? &c->previous->next : &l->first) = c->next;
        *(c->next ? &c->next->previous : &l->last) = c->previous;
}

static void join_phase(struct http_connections *all, struct http_connection *c, enum http_phase phase) {
        struct http_line *l = &all->lines[phase];
        usec_t time = time_of(all, phase);

        c->phase = phase;
        c->until = time == USEC_INFINITY ? USEC_INFINITY : now(all) + time;
        c->next = NULL;
        c->previous = l->last;
        *(l->last ? &l->last->next : &l->first) = c;
        l->last = c;
        if (c->until < all->armed)
                arm_deadline(all, c->until);
}

void http_connection_enter(struct http_connections *all, struct http_connection *c, enum http_phase phase) {
        leave(all, c);
        join_phase(all, c, phase);
}

static bool is_empty(const struct http_connections *all) {
        for (size_t i = 0; i < _HTTP_PHASE_MAX; i++)
                if (all->lines[i].first)
                        return false;
        return true;
}

/* libmicrohttpd closes what was shut down. */
static void end_connection(struct http_connections *all, struct http_connection *c) {
        (void) shutdown(c->fd, SHUT_RDWR); /* fails when the other side is gone already */
        http_connection_enter(all, c, HTTP_PHASE_WAITS);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct http_connections *all = userdata;
        usec_t t = now(all), next = USEC_INFINITY;

        (void) source;
        (void) usec;
        for (enum http_phase p = 0; p < HTTP_PHASE_WAITS; p++) {
                struct http_connection *c;

                while ((c = all->lines[p].first) && c->until <= t)
                        end_connection(all, c);
                if (c)
                        next = MIN(next, c->until);
        }
        arm_deadline(all, next);
        return 0;
}

/* --- Shares of a Unix socket --------------------------------------------------------------------------- */

static bool has_enough(const struct http_connections *all, uid_t uid) {
        size_t of_user = 0, of_users = 0;

        if (uid == 0)
                return false;
        for (size_t i = 0; i < _HTTP_PHASE_MAX; i++)
                for (const struct http_connection *c = all->lines[i].first; c; c = c->next) {
                        of_user += c->caller.peer.uid == uid;
                        of_users += c->caller.peer.uid != 0;
                }
        return of_user >= HTTP_LOCAL_OF_USER || of_users >= HTTP_LOCAL_OF_USERS;
}

/* Before libmicrohttpd has read anything: the client finds the answer and the end behind it. */
static void turn_away(int fd) {
        static const char body[] = "{\"error\":\"too many connections are open\",\"remedy\":"
                                   "\"close some: 12 of one user, 24 of all but root\"}";
        char text[512];
        int n = snprintf(text, sizeof(text),
                         "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                         "Retry-After: 1\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                         sizeof(body) - 1, body);

        (void) send(fd, text, (size_t) n, MSG_DONTWAIT | MSG_NOSIGNAL); /* who is gone needs no answer */
        (void) shutdown(fd, SHUT_RDWR);
}

_Static_assert(HTTP_LOCAL_OF_USER == 12 && HTTP_LOCAL_OF_USERS == 24, "the text above says so");

/* --- Shares over TCP ----------------------------------------------------------------------------------- */

static void count_as(struct http_connections *all, struct http_connection *c, const char *name,
                     bool accepted) {
        size_t at = (fnv_text(FNV_BEGIN, name) >> 40) % HTTP_COUNTS;

        if (c->count)
                --*c->count;
        c->count = &all->counts[at + (accepted ? HTTP_COUNTS : 0)];
        ++*c->count;
}

static void leave_strangers(struct http_connections *all, struct http_connection *c) {
        *(c->older ? &c->older->newer : &all->strangers.first) = c->newer;
        *(c->newer ? &c->newer->older : &all->strangers.last) = c->older;
        all->n_strangers--;
}

/* The oldest of an address that has more than an eighth of the room; else the oldest of all. */
static void end_a_stranger(struct http_connections *all, unsigned room) {
        struct http_connection *c = all->strangers.first;

        while (c && *c->count <= room / 8)
                c = c->newer;
        c = c ? c : all->strangers.first;
        leave_strangers(all, c);
        c->standing = DENIED;
        end_connection(all, c);
}

static void join_strangers(struct http_connections *all, struct http_connection *c) {
        unsigned room = all->o->connections - all->o->connections / 4;

        /* At the limit of all libmicrohttpd takes none any more, and nobody would be ended. */
        if (all->n_strangers >= room ||
            (all->n_strangers > 0 && all->n + SPARE_CONNECTIONS > all->o->connections))
                end_a_stranger(all, room);
        count_as(all, c, c->caller.address, false);
        c->newer = NULL;
        c->older = all->strangers.last;
        *(c->older ? &c->older->newer : &all->strangers.first) = c;
        all->strangers.last = c;
        all->n_strangers++;
}

/* The header of a request is here, and with TLS its certificate was looked at. */
static void judge_standing(struct http_connections *all, struct http_connection *c) {
        bool may = !all->o->certificate || (c->reads && (!c->proof || c->proof->counts));

        if (all->local || c->standing == CROWDED || c->standing == DENIED ||
            (c->standing == ACCEPTED && may))
                return;
        if (c->standing == STRANGER)
                leave_strangers(all, c);
        c->standing = may ? ACCEPTED : DENIED;
        if (may && all->o->certificate && all->o->of_caller > 0) {
                count_as(all, c, c->caller.host[0] ? c->caller.host : c->caller.name, true);
                if (*c->count > all->o->of_caller)
                        c->standing = CROWDED;
        }
        if (c->standing != ACCEPTED)
                c->ends = 0;
}

bool http_connection_is_crowded(const struct http_connection *c) {
        return c->standing == CROWDED;
}

/* --- Connections --------------------------------------------------------------------------------------- */

struct http_connection *http_connection_of(struct MHD_Connection *mhd) {
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

        return i ? i->socket_context : NULL;
}

static gnutls_session_t session_of(struct MHD_Connection *mhd) {
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);

        return i ? i->tls_session : NULL;
}

/* A connection is made with the newest files that were good. */
static void look_at_files(struct http_connections *all) {
        struct server_certificate *s = all->o->certificate;
        const struct server_certificate_state *state = server_certificate_state(s);

        all->looked = now(all);
        if (!all->o->rereads)
                return;
        tls_callers_look(all->o->callers);
        if (!server_certificate_look(s))
                return;
        if (state->error[0])
                log_warning("TLS: %s; the previous files stay in force", state->error);
        else
                log_info("TLS: the new files are in force: %s", server_certificate_path(s, TLS_CERT));
        if (state->warning[0])
                log_warning("TLS: %s", state->warning);
}

/* Anything, other for each: the last digits of when and where it came. */
usec_t http_connection_ends(usec_t now, usec_t life, const void *c) {
        uint64_t h = fnv(fnv(FNV_BEGIN, &now, sizeof(now)), &c, sizeof(c));

        return now + life - life / 4 * (h >> 40 & 1023) / 1024;
}

static bool know_peer(const struct http_connections *all, struct http_connection *c) {
        const union MHD_ConnectionInfo *i;
        socklen_t len = sizeof(c->caller.peer);

        if (all->local)
                return getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &c->caller.peer, &len) == 0 &&
                       !has_enough(all, c->caller.peer.uid);
        i = MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        c->caller.remote = true;
        c->caller.acts = !all->o->certificate;
        (void) snprintf(c->caller.address, sizeof(c->caller.address), "?");
        if (i && i->client_addr)
                tcp_address_host(i->client_addr, c->caller.address);
        return true;
}

/* NULL: no request over TCP is answered; with TLS the handshake ends (server_certificate_none()). */
static struct http_connection *connected(struct http_connections *all, struct MHD_Connection *mhd) {
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct http_connection *c = i ? calloc(1, sizeof(*c)) : NULL;
        gnutls_session_t session = session_of(mhd);

        if (c) {
                c->mhd = mhd;
                c->fd = i->connect_fd;
        }
        if (!c || !know_peer(all, c)) {
                if (all->local && i)
                        turn_away(i->connect_fd);
                free(c);
                return NULL;
        }
        if (all->o->certificate && session) {
                look_at_files(all);
                c->ends = http_connection_ends(now(all), all->o->life, c);
                c->credentials = server_certificate_attach(all->o->certificate, session);
        }
        join_phase(all, c, HTTP_PHASE_HEADER);
        all->n++;
        if (!all->local)
                join_strangers(all, c);
        return c;
}

void http_connections_notify(void *userdata, struct MHD_Connection *mhd, void **context,
                             enum MHD_ConnectionNotificationCode how) {
        struct http_connections *all = userdata;
        struct http_connection *c = *context;

        if (how == MHD_CONNECTION_NOTIFY_STARTED) {
                *context = connected(all, mhd);
                return;
        }
        *context = NULL;
        if (!c)
                return;
        leave(all, c);
        all->n--;
        if (!all->local && c->standing == STRANGER)
                leave_strangers(all, c);
        if (c->count)
                --*c->count;
        if (is_empty(all))
                arm_deadline(all, USEC_INFINITY);
        c->credentials = server_credentials_detach(c->credentials);
        free(c->proof);
        free(c);
}

/* --- Who ----------------------------------------------------------------------------------------------- */

static unsigned changes_now(const struct http_connections *all) {
        return server_certificate_state(all->o->certificate)->changes + all->o->callers->changes;
}

static void check_certificate(struct http_connections *all, struct http_connection *c) {
        gnutls_x509_trust_list_t trust = server_certificate_trust(all->o->certificate);
        gnutls_session_t session = session_of(c->mhd);
        struct tls_verdict verdict = { 0 };
        struct tls_peer peer;

        c->checked = true;
        c->changes = changes_now(all);
        c->not_after = USEC_INFINITY;
        c->reads = false;
        if (!session || !c->credentials || !trust)
                (void) snprintf(c->why, sizeof(c->why), "no TLS session");
        else if (tls_read_peer(session, trust, &peer, c->why) == 0) {
                c->not_after = peer.not_after;
                c->reads = tls_judge_peer(all->o->callers, &peer, &verdict, c->why) == 0;
        }
        if (verdict.wants_token && c->reads && !c->proof && !(c->proof = calloc(1, sizeof(*c->proof)))) {
                (void) snprintf(c->why, sizeof(c->why), "out of memory");
                c->reads = false;
        }
        if (!verdict.wants_token) {
                free(c->proof);
                c->proof = NULL;
        }
        c->caller.acts = verdict.acts;
        c->caller.proxy = verdict.proxy;
        memcpy(c->caller.name, verdict.name, sizeof(c->caller.name));
        memcpy(c->caller.host, verdict.host, sizeof(c->caller.host));
}

/* Each request has its token: it ends while the connection goes on. */
static void check_token(struct http_connection *c, const struct tls_callers *callers) {
        const char *given =
                MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);

        if (!tls_prove(callers, given, clock_real(&clock_system), c->proof))
                return;
        memcpy(c->caller.name, c->proof->name, sizeof(c->caller.name));
        memcpy(c->caller.host, c->proof->host, sizeof(c->caller.host));
        memcpy(c->caller.instance, c->proof->instance, sizeof(c->caller.instance));
}

void http_connection_identify(struct http_connections *all, struct http_connection *c,
                              struct http_request *q) {
        q->caller = &c->caller;
        if (!all->o->certificate) {
                judge_standing(all, c);
                return;
        }
        if (now(all) >= all->looked + all->o->check_again)
                look_at_files(all);
        /* Not for each request: a signature is slow to check. */
        if (!c->checked || c->changes != changes_now(all) || clock_real(&clock_system) >= c->not_after)
                check_certificate(all, c);
        if (c->reads && c->proof)
                check_token(c, all->o->callers);
        q->denied = !c->reads ? c->why : c->proof && !c->proof->counts ? c->proof->why : NULL;
        judge_standing(all, c);
}

bool http_connection_is_old(const struct http_connections *all, const struct http_connection *c) {
        return all->o->certificate && (c->ends == 0 || now(all) >= c->ends);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int http_connections_init(struct http_connections *all, sd_event *e, const struct http_server_options *o) {
        struct sockaddr_storage sa;
        socklen_t len = sizeof(sa);

        *all = (struct http_connections){ .event = e, .o = o, .armed = USEC_INFINITY };
        if (getsockname(o->fd, (struct sockaddr *) &sa, &len) < 0)
                return -errno;
        all->local = sa.ss_family == AF_UNIX;
        if (!all->local) {
                all->counts = calloc(2 * HTTP_COUNTS, sizeof(*all->counts));
                if (!all->counts)
                        return -ENOMEM;
        }
        return loop_timer_new(e, CLOCK_BOOTTIME, ACCURACY, "http-deadline", on_timer, all, &all->timer);
}

void http_connections_clear(struct http_connections *all) {
        assert(is_empty(all) && all->n_strangers == 0);
        free(TAKE_PTR(all->counts));
        all->timer = sd_event_source_disable_unref(all->timer);
}
