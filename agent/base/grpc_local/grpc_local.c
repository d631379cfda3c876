/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "grpc_local.h"
#include "loop_timer.h"

#define READ_SIZE 16384
#define OUT_SIZE 32768 /* more than sixty-four questions */

struct grpc_local {
        sd_event *event;
        sd_event_source *io, *timer; /* io owns the socket; NULL: not connected */
        struct grpc_session *session;
        struct grpc_local_options options;
        struct grpc_local_traffic traffic;
        char name[32], timer_name[48], user_agent[64];
        bool telling; /* telling: done is being called, which may ask but must meet no other end */
        int fd;
        uint8_t out[OUT_SIZE];
        size_t out_from, out_to;
};

/* --- The connection ---------------------------------------------------------------------------------- */

static void report_grpc(struct grpc_local *l, int error, const char *why) {
        l->telling = true;
        if (error < 0)
                grpc_session_fail(l->session, error, why);
        else
                grpc_session_deliver(l->session);
        l->telling = false;
}

static void close_connection(struct grpc_local *l, int error, const char *why) {
        if (!l->io)
                return;
        l->io = sd_event_source_disable_unref(l->io);
        l->fd = -1;
        l->out_from = l->out_to = 0;
        (void) sd_event_source_set_enabled(l->timer, SD_EVENT_OFF);
        report_grpc(l, error, why);
        l->session = grpc_session_free(l->session);
        if (l->options.closed)
                l->options.closed(error, why, l->options.userdata);
}

/* On loopback the answer of connect(2) is there at once, as a rule, or right behind it; else the first write
 * meets it. */
static int connect_to(const struct sockaddr *address, socklen_t len) {
        _cleanup_close_ int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        socklen_t error_len = sizeof(int);
        const int on = 1;
        int error = 0;

        if (fd < 0)
                return -errno;
        if (connect(fd, address, len) < 0 && errno != EINPROGRESS)
                return -errno;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len) == 0 && error != 0)
                return -error;
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* costs time only */
        return TAKE_FD(fd);
}

static int connect_port(uint16_t port) {
        const struct sockaddr_in four = { .sin_family = AF_INET,
                                          .sin_port = htons(port),
                                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        const struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                          .sin6_port = htons(port),
                                          .sin6_addr = IN6ADDR_LOOPBACK_INIT };
        int fd = connect_to((const struct sockaddr *) &four, sizeof(four)), other;

        if (fd != -ECONNREFUSED)
                return fd;
        other = connect_to((const struct sockaddr *) &six, sizeof(six));
        return other >= 0 ? other : -ECONNREFUSED; /* a host without IPv6 is no news */
}

/* --- Bytes ------------------------------------------------------------------------------------------- */

/* Fills out as far as it goes. -errno: the connection is to be closed. */
static int collect_calls(struct grpc_local *l) {
        const uint8_t *data;
        ssize_t n;

        if (l->out_from == l->out_to)
                l->out_from = l->out_to = 0;
        while (l->out_to <= OUT_SIZE / 2) {
                n = grpc_session_output(l->session, &data);
                if (n <= 0)
                        return (int) n;
                if ((size_t) n > OUT_SIZE - l->out_to)
                        return -EPROTO; /* a frame of ours is 16 KiB at most */
                memcpy(l->out + l->out_to, data, (size_t) n);
                l->out_to += (size_t) n;
        }
        return 0;
}

/* 0, 1: the socket takes no more for now, or -errno. */
static int write_out(struct grpc_local *l) {
        for (;;) {
                ssize_t n;
                int r = collect_calls(l);

                if (r < 0 || l->out_from == l->out_to)
                        return r;
                n = send(l->fd, l->out + l->out_from, l->out_to - l->out_from, MSG_NOSIGNAL);
                if (n < 0)
                        return errno == EAGAIN || errno == ENOTCONN ? 1 : -errno;
                l->out_from += (size_t) n;
                l->traffic.sent += (size_t) n;
        }
}

static void flush_session(struct grpc_local *l) {
        int r;

        if (!l->io)
                return;
        r = write_out(l);
        if (r >= 0)
                r = sd_event_source_set_io_events(l->io, EPOLLIN | (r > 0 ? (uint32_t) EPOLLOUT : 0));
        if (r < 0)
                close_connection(l, r, "the connection failed");
}

/* Tells what has ended and sends what there is, which may end more. */
static void settle(struct grpc_local *l) {
        do {
                report_grpc(l, 0, NULL);
                flush_session(l);
        } while (l->io && grpc_session_has_ended(l->session));
        if (l->io && grpc_session_open(l->session) == 0)
                (void) sd_event_source_set_enabled(l->timer, SD_EVENT_OFF);
}

/* Returns what is to be said of the connection: NULL while it stands. */
static const char *read_in(struct grpc_local *l, int *ret_error) {
        uint8_t buf[READ_SIZE];
        ssize_t n;

        do {
                n = recv(l->fd, buf, sizeof(buf), 0);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return NULL;
                if (n <= 0) {
                        *ret_error = n < 0 ? -errno : -ECONNRESET;
                        return "the server closed the connection";
                }
                l->traffic.received += (size_t) n;
                *ret_error = grpc_session_input(l->session, buf, (size_t) n);
                if (*ret_error < 0)
                        return *ret_error == -ENOBUFS      ? "the server says more than is taken"
                               : *ret_error == -ECONNRESET ? "the server closed the connection"
                                                           : "the server speaks no HTTP/2";
        } while ((size_t) n == sizeof(buf));
        return NULL;
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        struct grpc_local *l = userdata;
        const char *why = NULL;
        int error = 0;

        (void) source, (void) fd;
        if (revents & ~(uint32_t) EPOLLOUT)
                why = read_in(l, &error);
        if (!why)
                settle(l);
        else
                close_connection(l, error, why); /* which tells what had ended before, too */
        return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source, (void) usec;
        close_connection(userdata, -ETIMEDOUT, "no answer in time");
        return 0;
}

/* --- Asking ------------------------------------------------------------------------------------------ */

static int start_connection(struct grpc_local *l, int fd) {
        const struct grpc_session_options o = { .user_agent = l->user_agent,
                                                .message_max = l->options.message_max,
                                                .budget = l->options.budget };
        int r;

        r = grpc_session_new(&o, &l->session);
        if (r < 0)
                return r;
        r = sd_event_add_io(l->event, &l->io, fd, EPOLLIN, on_io, l);
        if (r < 0) {
                l->session = grpc_session_free(l->session);
                return r;
        }
        (void) sd_event_source_set_description(l->io, l->name);
        return 0;
}

int grpc_local_open(struct grpc_local *l) {
        _cleanup_close_ int fd = -1;
        int r;

        if (l->io)
                return 0;
        if (l->telling)
                return -EBUSY;
        fd = connect_port(l->options.port);
        if (fd < 0)
                return fd;
        r = start_connection(l, fd);
        if (r < 0)
                return r;
        r = sd_event_source_set_io_fd_own(l->io, true);
        if (r < 0) {
                l->io = sd_event_source_disable_unref(l->io);
                l->session = grpc_session_free(l->session);
                return r;
        }
        l->fd = TAKE_FD(fd);
        l->traffic.connections++;
        return 0;
}

int grpc_local_ask(struct grpc_local *l, const struct grpc_session_question *q) {
        struct grpc_session_question asked = *q;
        int r;

        if (!l->io)
                return -ENOTCONN;
        asked.timeout = l->options.timeout;
        r = grpc_session_ask(l->session, &asked);
        if (r == 0)
                l->traffic.calls++;
        return r;
}

void grpc_local_send(struct grpc_local *l) {
        if (!l->io)
                return;
        l->traffic.exchanges++;
        grpc_session_reset_budget(l->session);
        if (loop_timer_in(l->timer, l->options.timeout) < 0)
                (void) loop_timer_in(l->timer, USEC_INFINITY); /* the next exchange tries again */
        if (!l->telling)
                settle(l); /* else whoever tells does */
}

const struct grpc_local_traffic *grpc_local_traffic(const struct grpc_local *l) {
        return &l->traffic;
}

/* --- Life -------------------------------------------------------------------------------------------- */

int grpc_local_new(sd_event *e, const struct grpc_local_options *o, struct grpc_local **ret) {
        _cleanup_(grpc_local_freep) struct grpc_local *l = calloc(1, sizeof(*l));
        int r;

        if (!l)
                return -ENOMEM;
        l->event = sd_event_ref(e);
        l->fd = -1;
        l->options = *o;
        (void) snprintf(l->name, sizeof(l->name), "%s-%u", o->name, o->port);
        (void) snprintf(l->timer_name, sizeof(l->timer_name), "%s-deadline", l->name);
        (void) snprintf(l->user_agent, sizeof(l->user_agent), "%s", o->user_agent);
        r = loop_timer_new(e, CLOCK_MONOTONIC, 50 * USEC_PER_MSEC, l->timer_name, on_timer, l, &l->timer);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

struct grpc_local *grpc_local_free(struct grpc_local *l) {
        if (!l)
                return NULL;
        l->io = sd_event_source_disable_unref(l->io);
        l->timer = sd_event_source_disable_unref(l->timer);
        l->session = grpc_session_free(l->session);
        l->event = sd_event_unref(l->event);
        free(l);
        return NULL;
}
