/* SPDX-License-Identifier: Apache-2.0 */
#include "api_local.h"

struct connection {
        struct api_deadline deadline; /* the first member */
        struct ucred peer;
};

struct api_local {
        struct api_deadlines deadlines;
};

static struct connection *connection_of(struct MHD_Connection *mhd) {
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

        return i ? i->socket_context : NULL;
}

/* --- Shares -------------------------------------------------------------------------------------------- */

static bool has_enough(const struct api_local *l, uid_t uid) {
        size_t of_user = 0, of_users = 0;

        if (uid == 0)
                return false;
        for (const struct api_deadline *d = l->deadlines.first; d; d = d->next) {
                const struct connection *c = (const struct connection *) d;

                of_user += c->peer.uid == uid;
                of_users += c->peer.uid != 0;
        }
        return of_user >= API_LOCAL_OF_USER || of_users >= API_LOCAL_OF_USERS;
}

/* Before libmicrohttpd has read anything: the client finds the answer and the end behind it. */
static void turn_away(int fd) {
        static const char body[] = "{\"error\":\"too many connections are open\",\"remedy\":"
                                   "\"close some: 12 of one user, 24 of all but root\"}";
        char text[512];
        int n = snprintf(text, sizeof(text),
                         "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
                         "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
                         sizeof(body) - 1, body);

        (void) send(fd, text, (size_t) n, MSG_DONTWAIT | MSG_NOSIGNAL); /* who is gone needs no answer */
        (void) shutdown(fd, SHUT_RDWR);
}

_Static_assert(API_LOCAL_OF_USER == 12 && API_LOCAL_OF_USERS == 24, "the text above says so");

static struct connection *connected(struct api_local *l, struct MHD_Connection *mhd) {
        const union MHD_ConnectionInfo *i = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct connection *c;
        struct ucred peer;
        socklen_t len = sizeof(peer);

        if (!i)
                return NULL;
        if (getsockopt(i->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || has_enough(l, peer.uid)) {
                turn_away(i->connect_fd);
                return NULL;
        }
        c = calloc(1, sizeof(*c));
        if (!c) {
                turn_away(i->connect_fd);
                return NULL;
        }
        c->peer = peer;
        api_deadline_add(&l->deadlines, &c->deadline, i->connect_fd, API_REQUEST_TIME);
        return c;
}

static void on_connection(void *userdata, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode how) {
        struct api_local *l = userdata;
        struct connection *c = *context;

        if (how == MHD_CONNECTION_NOTIFY_STARTED) {
                *context = connected(l, mhd);
                return;
        }
        if (c)
                api_deadline_remove(&l->deadlines, &c->deadline);
        free(c);
        *context = NULL;
}

void api_local_mhd_options(struct api_local *l, struct MHD_OptionItem items[API_OPTIONS]) {
        const struct MHD_OptionItem all[] = {
                { MHD_OPTION_NOTIFY_CONNECTION, (intptr_t) on_connection, l },
                { MHD_OPTION_END, 0, NULL },
        };

        memcpy(items, all, sizeof(all));
}

/* --- Calls --------------------------------------------------------------------------------------------- */

const struct ucred *api_local_peer(struct MHD_Connection *mhd) {
        const struct connection *c = connection_of(mhd);

        return c ? &c->peer : NULL;
}

static void set(struct api_local *l, struct MHD_Connection *mhd, usec_t from_now) {
        struct connection *c = connection_of(mhd);

        if (c)
                api_deadline_set(&l->deadlines, &c->deadline, from_now);
}

void api_local_waits(struct api_local *l, struct MHD_Connection *mhd) {
        set(l, mhd, USEC_INFINITY);
}

void api_local_answers(struct api_local *l, struct MHD_Connection *mhd) {
        set(l, mhd, API_ANSWER_TIME);
}

void api_local_done(struct api_local *l, struct MHD_Connection *mhd) {
        set(l, mhd, API_REQUEST_TIME);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int api_local_new(sd_event *e, struct api_local **ret) {
        _cleanup_(api_local_freep) struct api_local *l = calloc(1, sizeof(*l));
        int r;

        if (!l)
                return -ENOMEM;
        r = api_deadlines_init(&l->deadlines, e, "api-deadline");
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

struct api_local *api_local_free(struct api_local *l) {
        if (!l)
                return NULL;
        api_deadlines_clear(&l->deadlines);
        free(l);
        return NULL;
}
