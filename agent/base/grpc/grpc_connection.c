/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of a connection: one address of the server after the other, then bytes both ways. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#include "grpc_state.h"

#define READ_SIZE 16384
#define SLOWER_MAX 2U /* doublings */
#define READS 4 /* in a row, then others of the loop have their turn */

static void dial_next(struct grpc_connection *n);

int grpc_bytes_add(struct bytes *b, const uint8_t *data, size_t len) {
        size_t want = b->len + len, size = b->size ? b->size : 512;
        uint8_t *more;

        if (want > b->size) {
                while (size < want)
                        size *= 2;
                more = realloc(b->data, size);
                if (!more)
                        return -ENOMEM;
                b->data = more;
                b->size = size;
        }
        memcpy(b->data + b->len, data, len);
        b->len = want;
        return 0;
}

void grpc_connection_fail(struct grpc_connection *n, const char *fmt, ...) {
        va_list ap;

        grpc_connection_retire(n);
        grpc_unsettled(n->channel);
        if (n->failed)
                return;
        n->failed = true;
        va_start(ap, fmt);
        (void) vsnprintf(n->why, sizeof(n->why), fmt, ap); /* cut when too long */
        va_end(ap);
}

void grpc_connection_retire(struct grpc_connection *n) {
        n->retired = true;
        if (n->channel->current == n)
                n->channel->current = NULL;
}

void grpc_connection_open(struct grpc_connection *n) {
        usec_t now = grpc_now(n->channel);

        n->phase = PHASE_OPEN;
        n->heard = now;
        for (struct grpc_call *c = n->channel->calls; c; c = c->next)
                if (c->state == CALL_AT_WORK && c->connection == n && c->deadline)
                        c->due = now + c->deadline + DEADLINE_GRACE;
}

/* --- Bytes ------------------------------------------------------------------------------------------ */

static void listen_for(struct grpc_connection *n, bool waits_to_send) {
        if (n->waits_to_send == waits_to_send)
                return;
        n->waits_to_send = waits_to_send;
        if (sd_event_source_set_io_events(n->io, waits_to_send ? EPOLLIN | EPOLLOUT : EPOLLIN) < 0)
                grpc_connection_fail(n, "out of memory");
}

/* 1: all of it went out; 0: the socket takes no more for now; -errno. */
static int send_out(struct grpc_connection *n) {
        while (n->out_at < n->out.len) {
                ssize_t k = send(n->fd, n->out.data + n->out_at, n->out.len - n->out_at,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return errno == EAGAIN ? 0 : -errno;
                n->out_at += (size_t) k;
        }
        free(n->out.data); /* an idle connection holds nothing */
        n->out = (struct bytes){ 0 };
        n->out_at = 0;
        return 1;
}

void grpc_connection_flush(struct grpc_connection *n) {
        int r = 1;

        if (n->phase == PHASE_DIALING || n->fd < 0)
                return;
        while (r > 0) {
                r = send_out(n);
                if (r == 0)
                        return listen_for(n, true);
                if (r > 0)
                        r = n->ssl ? grpc_tls_fill(n, &n->out) : grpc_streams_fill(n, &n->out);
        }
        if (r < 0)
                return grpc_connection_fail(n, "sending failed: %s", strerror(-r));
        listen_for(n, false);
}

bool grpc_connection_has_unacknowledged(const struct grpc_connection *n) {
        int bytes = 0;

        return n->out_at < n->out.len || ioctl(n->fd, SIOCOUTQ, &bytes) < 0 || bytes > 0;
}

static void take(struct grpc_connection *n, const uint8_t *data, size_t len) {
        n->heard = grpc_now(n->channel);
        n->late = false;
        if (n->ssl)
                grpc_tls_take(n, data, len);
        else
                grpc_streams_take(n, data, len);
}

static void receive(struct grpc_connection *n) {
        uint8_t buf[READ_SIZE];

        for (unsigned i = 0; i < READS && !n->failed; i++) {
                ssize_t k = recv(n->fd, buf, sizeof(buf), MSG_DONTWAIT);

                if (k < 0 && (errno == EINTR || errno == EAGAIN))
                        return;
                if (k < 0)
                        return grpc_connection_fail(n, "the connection broke: %s", strerror(errno));
                if (k == 0)
                        return grpc_connection_fail(n, "the server closed the connection");
                take(n, buf, (size_t) k);
                if ((size_t) k < sizeof(buf))
                        return;
        }
}

/* --- Dialing ---------------------------------------------------------------------------------------- */

static const char *address_text(const union address *a, char buf[static INET6_ADDRSTRLEN]) {
        const void *at = a->any.sa_family == AF_INET ? (const void *) &((const struct sockaddr_in *) &a->room)->sin_addr
                                                     : &((const struct sockaddr_in6 *) &a->room)->sin6_addr;

        return inet_ntop(a->any.sa_family, at, buf, INET6_ADDRSTRLEN) ? buf : "?";
}

/* Another address, or all have been tried. */
static void dial_failed(struct grpc_connection *n, const char *why) {
        char text[INET6_ADDRSTRLEN];

        n->io = sd_event_source_disable_unref(n->io);
        if (n->fd >= 0)
                (void) close(n->fd); /* nothing was sent */
        n->fd = -1;
        if (n->address + 1 < n->n_addresses) {
                n->address++;
                dial_next(n);
                return;
        }
        grpc_connection_fail(n, "cannot connect to %s port %u: %s", address_text(&n->addresses[n->address], text),
                             (unsigned) n->channel->port, why);
}

/* A server that all of a fleet connect to at once may be slower than the timeout says: who gives up and comes back makes it worse. */
static usec_t handshake_span(const struct grpc *g) {
        return g->connect_timeout << MIN(g->slow, SLOWER_MAX);
}

usec_t grpc_connect_span(const struct grpc *g) {
        return g->connect_timeout + (g->https ? handshake_span(g) : 0);
}

static void connected(struct grpc_connection *n) {
        socklen_t len = sizeof(int);
        int error = 0;

        if (getsockopt(n->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
                error = errno;
        if (error)
                return dial_failed(n, strerror(error));
        n->phase = PHASE_HANDSHAKE;
        if (!n->ssl)
                grpc_connection_open(n);
        n->due = grpc_now(n->channel) + handshake_span(n->channel);
        n->address_due = USEC_INFINITY;
        grpc_connection_flush(n);
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        struct grpc_connection *n = userdata;

        (void) source, (void) fd;
        if (n->phase == PHASE_DIALING)
                connected(n);
        else {
                if (revents & (EPOLLIN | EPOLLERR | EPOLLHUP))
                        receive(n);
                if (!n->failed || n->ssl) /* TLS tells the other end why */
                        grpc_connection_flush(n);
        }
        grpc_settle(n->channel);
        return 0;
}

/* A silent stream would not notice that its server's machine is gone. What cannot be set is not needed to go on. */
static void set_options(int fd) {
        const int on = 1, idle = 10, between = 5;
        const unsigned lost = LOST_AFTER / USEC_PER_MSEC;

        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
        (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof(between));
        (void) setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost, sizeof(lost));
}

static int dial(struct grpc_connection *n) {
        const union address *a = &n->addresses[n->address];
        int r;

        n->fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (n->fd < 0)
                return -errno;
        set_options(n->fd);
        if (connect(n->fd, &a->any,
                    a->any.sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) < 0 &&
            errno != EINPROGRESS)
                return -errno;
        r = sd_event_add_io(n->channel->event, &n->io, n->fd, EPOLLIN | EPOLLOUT, on_io, n);
        if (r < 0)
                return r;
        n->waits_to_send = true;
        (void) sd_event_source_set_description(n->io, n->channel->name);
        return 0;
}

/* One that answers late gets half of the time that is left, so that the others have theirs. */
static void dial_next(struct grpc_connection *n) {
        usec_t now = grpc_now(n->channel), left = n->due > now ? n->due - now : 0;
        int r;

        n->address_due = n->address + 1 < n->n_addresses ? now + left / 2 : n->due;
        r = dial(n);
        if (r < 0)
                dial_failed(n, strerror(-r));
}

void grpc_connection_late(struct grpc_connection *n, usec_t now) {
        if (n->phase == PHASE_OPEN || n->failed)
                return;
        if (n->phase == PHASE_DIALING && now >= n->address_due && now < n->due)
                dial_failed(n, "no answer");
        else if (now >= n->due && n->phase == PHASE_DIALING) {
                n->address = n->n_addresses - 1;
                dial_failed(n, "timeout, no answer");
        } else if (now >= n->due) {
                n->channel->slow++;
                grpc_connection_fail(n, "TLS was not agreed upon in time: timeout");
        }
}

/* --- Addresses -------------------------------------------------------------------------------------- */

static bool add_address(struct grpc_connection *n, const char *text) {
        struct sockaddr_in *four = (struct sockaddr_in *) &n->addresses[n->n_addresses].room;
        struct sockaddr_in6 *six = (struct sockaddr_in6 *) &n->addresses[n->n_addresses].room;

        if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
                four->sin_family = AF_INET;
                four->sin_port = htons(n->channel->port);
        } else if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1) {
                six->sin6_family = AF_INET6;
                six->sin6_port = htons(n->channel->port);
        } else
                return false;
        n->n_addresses++;
        return true;
}

/* lookup.h: "host:port:address,[address],…" */
static void add_found(struct grpc_connection *n, const char *found) {
        const char *at = strchr(found, ':');

        at = at ? strchr(at + 1, ':') : NULL;
        while (at && n->n_addresses < LOOKUP_ADDRESSES) {
                char text[INET6_ADDRSTRLEN];
                size_t len;

                at += 1 + (at[1] == '[');
                len = strcspn(at, ",]");
                (void) snprintf(text, sizeof(text), "%.*s", (int) MIN(len, sizeof(text) - 1), at);
                (void) add_address(n, text); /* one that is none is passed over */
                at = strchr(at + len, ',');
        }
}

/* --- Life ------------------------------------------------------------------------------------------- */

int grpc_dial(struct grpc *g) {
        struct grpc_connection *n = calloc(1, sizeof(*n));
        usec_t taken;
        int r;

        if (!n)
                return -ENOMEM;
        n->channel = g;
        n->fd = -1;
        n->due = grpc_now(g) + g->connect_timeout;
        if (g->lookup)
                add_found(n, lookup_answer(g->lookup, &taken));
        else
                (void) add_address(n, g->host); /* it was looked at in grpc_new() */
        r = n->n_addresses > 0 ? grpc_streams_new(n) : -EADDRNOTAVAIL;
        if (r == 0 && g->https)
                r = grpc_tls_new(n);
        if (r < 0) {
                (void) grpc_connection_free(n);
                return r;
        }
        n->next = g->connections;
        g->connections = g->current = n;
        dial_next(n);
        return 0;
}

struct grpc_connection *grpc_connection_free(struct grpc_connection *n) {
        n->io = sd_event_source_disable_unref(n->io);
        if (n->fd >= 0)
                (void) close(n->fd); /* what it could not send it has said */
        nghttp2_session_del(n->session);
        SSL_free(n->ssl);
        free(n->out.data);
        free(n);
        return NULL;
}
