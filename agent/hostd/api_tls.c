/* SPDX-License-Identifier: Apache-2.0 */
#include <netdb.h>
#include <sys/socket.h>

#include "api_deadline.h"
#include "api_tls.h"
#include "tcp_address.h"
#include "tls_peer.h"

struct connection {
        struct api_deadline deadline;
        struct MHD_Connection *mhd;
        struct server_credentials *credentials;
        usec_t born;    /* boot clock */
        usec_t checked; /* boot clock; 0: never */
        unsigned lists;        /* as in struct api_tls when it was checked */
        bool reads, acts;
        char name[TLS_NAME_MAX], why[TLS_WHY_MAX], address[TCP_ADDRESS_TEXT_MAX];
};

struct api_tls {
        sd_event *event; /* borrowed: it outlives us */
        struct api_tls_options o;
        unsigned lists; /* counts api_tls_allow() */
        struct api_deadlines deadlines;
};

static usec_t now(const struct api_tls *t) {
        usec_t usec = 0;

        (void) sd_event_now(t->event, CLOCK_BOOTTIME, &usec); /* fails only in a forked child */
        return usec;
}

/* --- Connections --------------------------------------------------------------------------------------- */

static struct connection *connection_of(struct MHD_Connection *c) {
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

        return i ? i->socket_context : NULL;
}

static gnutls_session_t session_of(struct MHD_Connection *c) {
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_GNUTLS_SESSION);

        return i ? i->tls_session : NULL;
}

static struct connection *connected(struct api_tls *t, struct MHD_Connection *mhd) {
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct connection *c = i ? calloc(1, sizeof(*c)) : NULL;

        if (!c)
                return NULL;
        api_deadline_add(&t->deadlines, &c->deadline, i->connect_fd, API_REQUEST_TIME);
        c->mhd = mhd;
        c->born = now(t);
        (void) snprintf(c->address, sizeof(c->address), "?");
        i = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        if (i && i->client_addr)
                tcp_address_host(i->client_addr, c->address);
        return c;
}

static void disconnected(struct api_tls *t, struct connection *c) {
        api_deadline_remove(&t->deadlines, &c->deadline);
        c->credentials = server_credentials_detach(c->credentials);
        free(c);
}

static void on_connection(void *userdata, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode how) {
        struct api_tls *t = userdata;
        gnutls_session_t session = session_of(mhd);
        struct connection *c = *context;

        if (how == MHD_CONNECTION_NOTIFY_CLOSED) {
                if (c)
                        disconnected(t, c);
                *context = NULL;
                return;
        }
        *context = c = connected(t, mhd);
        if (c && session) /* else server_certificate_none() ends its handshake */
                c->credentials = server_certificate_attach(t->o.certificate, session);
}

void api_tls_mhd_options(struct api_tls *t, struct MHD_OptionItem items[API_OPTIONS]) {
        const struct MHD_OptionItem all[] = {
                { MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *) (intptr_t) server_certificate_none },
                { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *) (uintptr_t) TLS_PRIORITIES },
                { MHD_OPTION_NOTIFY_CONNECTION, (intptr_t) on_connection, t },
                { MHD_OPTION_PER_IP_CONNECTION_LIMIT, API_TLS_PER_ADDRESS, NULL },
                { MHD_OPTION_END, 0, NULL },
        };

        memcpy(items, all, sizeof(all));
}

/* --- Who ----------------------------------------------------------------------------------------------- */

static void check(struct api_tls *t, struct connection *c) {
        const char *const lists[] = { t->o.actors, t->o.readers };
        gnutls_session_t session = session_of(c->mhd);
        size_t which = ELEMENTSOF(lists);

        c->checked = now(t);
        c->lists = t->lists;
        c->name[0] = '\0';
        if (!session || !c->credentials)
                (void) snprintf(c->why, sizeof(c->why), "no TLS session");
        else
                (void) tls_check_peer(session, lists, ELEMENTSOF(lists), &which, c->name, c->why);
        c->acts = which == 0;
        c->reads = which < ELEMENTSOF(lists);
}

const char *api_tls_identify(struct api_tls *t, struct MHD_Connection *mhd, struct api_caller *ret) {
        struct connection *c = connection_of(mhd);

        *ret = (struct api_caller){ .remote = true };
        if (!c)
                return "out of memory";
        if (c->checked == 0 || c->lists != t->lists || now(t) >= c->checked + API_TLS_CHECK_AGAIN)
                check(t, c);
        ret->acts = c->acts;
        (void) snprintf(ret->name, sizeof(ret->name), "%s", c->name);
        (void) snprintf(ret->address, sizeof(ret->address), "%s", c->address);
        return c->reads ? NULL : c->why;
}

void api_tls_allow(struct api_tls *t, const char *readers, const char *actors) {
        t->o.readers = readers;
        t->o.actors = actors;
        t->lists++;
}

/* --- Calls --------------------------------------------------------------------------------------------- */

void api_tls_waits(struct api_tls *t, struct MHD_Connection *mhd) {
        struct connection *c = connection_of(mhd);

        if (c)
                api_deadline_set(&t->deadlines, &c->deadline, USEC_INFINITY);
}

bool api_tls_answers(struct api_tls *t, struct MHD_Connection *mhd) {
        struct connection *c = connection_of(mhd);

        if (!c)
                return true;
        api_deadline_set(&t->deadlines, &c->deadline, API_ANSWER_TIME);
        return now(t) >= c->born + API_TLS_LIFE;
}

void api_tls_done(struct api_tls *t, struct MHD_Connection *mhd) {
        struct connection *c = connection_of(mhd);

        if (c)
                api_deadline_set(&t->deadlines, &c->deadline, API_REQUEST_TIME);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int api_tls_new(sd_event *e, const struct api_tls_options *o, struct api_tls **ret) {
        _cleanup_(api_tls_freep) struct api_tls *t = calloc(1, sizeof(*t));
        int r;

        if (!t)
                return -ENOMEM;
        t->event = e;
        t->o = *o;
        r = api_deadlines_init(&t->deadlines, e, "api-tls-deadline");
        if (r < 0)
                return r;
        *ret = TAKE_PTR(t);
        return 0;
}

struct api_tls *api_tls_free(struct api_tls *t) {
        if (!t)
                return NULL;
        api_deadlines_clear(&t->deadlines);
        free(t);
        return NULL;
}
