/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include "frame.h"
#include "frame_header.h"
#include "log.h"
#include "loop_timer.h"

#define READ_CHUNK 16384
#define FRAMES_A_WAKEUP 16 /* one talkative peer must not keep the loop from the others */
#define PEERS_OF_A_USER_MAX 16 /* of FRAME_PEERS_MAX; root may have all */

struct frame_peer {
        struct frame_server *server; /* NULL for a client's connection */
        struct frame_peer *next, **previous;
        const struct frame_handlers *handlers;
        void *userdata, *state;
        sd_event_source *io, *more; /* more: whole frames wait in the buffer */
        sd_event_source *patience;  /* answers wait to be taken */
        int fd, fd_in, fd_out; /* fd_in, fd_out: that came, that goes with the first byte of out; -1 */
        struct ucred creds;
        uint8_t *in, *out;
        size_t in_len, in_size, out_len, out_sent;
        bool dead, in_handler;
};

struct frame_server {
        sd_event *event;
        sd_event_source *io;
        int fd;
        const struct frame_handlers *handlers;
        void *userdata;
        struct frame_peer *peers;
        size_t n_peers;
};

/* --- Connections -------------------------------------------------------------------------------------- */

struct frame_peer *frame_peer_free(struct frame_peer *p) {
        if (!p)
                return NULL;
        if (p->in_handler) {
                /* Our own loop still stands on p: it frees it when the handler is back. */
                p->dead = true;
                p->handlers = NULL;
                return NULL;
        }
        if (p->server) {
                *p->previous = p->next;
                if (p->next)
                        p->next->previous = p->previous;
                p->server->n_peers--;
        }
        p->io = sd_event_source_disable_unref(p->io);
        p->more = sd_event_source_disable_unref(p->more);
        p->patience = sd_event_source_disable_unref(p->patience);
        p->fd = close_fd(p->fd);
        p->fd_in = close_fd(p->fd_in);
        p->fd_out = close_fd(p->fd_out);
        free(p->in);
        free(p->out);
        free(p);
        return NULL;
}

static void peer_close(struct frame_peer *p) {
        const struct frame_handlers *h = p->handlers;

        p->handlers = NULL;
        if (h && h->closed)
                h->closed(p, p->userdata);
        p->in_handler = false;
        (void) frame_peer_free(p);
}

/* 1: something was written and more waits; 0: nothing waits; -errno. */
static int peer_flush(struct frame_peer *p) {
        while (p->out_sent < p->out_len) {
                ssize_t n = socket_send(p->fd, p->out + p->out_sent, p->out_len - p->out_sent, &p->fd_out);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN || errno == ENOTCONN ? 1 : -errno;
                p->out_sent += (size_t) n;
        }
        free(TAKE_PTR(p->out));
        p->out_len = p->out_sent = 0;
        return 0;
}

/* Whether a whole frame, or the beginning of a bad one, is in the buffer. */
static bool has_frame(const struct frame_peer *p) {
        struct frame_header h;

        if (p->in_len < FRAME_HEADER_SIZE)
                return false;
        return frame_header_get(p->in, &h) < 0 || p->in_len >= FRAME_HEADER_SIZE + (size_t) h.len;
}

static int on_patience(sd_event_source *source, uint64_t usec, void *userdata) {
        struct frame_peer *p = userdata;

        (void) source, (void) usec;
        log_info("local connection of pid %d ended: it does not take its answers", (int) p->creds.pid);
        peer_close(p);
        return 0;
}

/* Also one that takes a byte now and then: the time is that of all that waits. */
static void peer_limit(struct frame_peer *p, bool writing) {
        usec_t span = p->handlers && p->handlers->patience ? p->handlers->patience : FRAME_PATIENCE;

        if (!writing)
                p->patience = sd_event_source_disable_unref(p->patience);
        else if (p->server && !p->patience &&
                 loop_timer_new(p->server->event, CLOCK_MONOTONIC, span / 4, "frame-patience", on_patience,
                                p, &p->patience) == 0) /* without memory there is no limit for once */
                (void) loop_timer_in(p->patience, span);
}

/* While an answer waits to be taken nothing more is read: a peer that only asks grows nothing. */
static void peer_watch(struct frame_peer *p) {
        bool writing = p->out_len > 0, more = !writing && has_frame(p);

        peer_limit(p, writing);
        /* neither can fail on a live source */
        (void) sd_event_source_set_io_events(p->io, writing ? EPOLLOUT : more ? 0 : EPOLLIN);
        (void) sd_event_source_set_enabled(p->more, more ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

static int peer_reserve(struct frame_peer *p, size_t size) {
        uint8_t *in;

        if (size <= p->in_size)
                return 0;
        in = realloc(p->in, size);
        if (!in)
                return -ENOMEM;
        p->in = in;
        p->in_size = size;
        return 0;
}

/* Hands on whole frames that are in the buffer, a few. Returns -errno when the peer broke the rules. */
static int peer_dispatch(struct frame_peer *p) {
        size_t used = 0;
        int r = 0;

        for (unsigned i = 0; i < FRAMES_A_WAKEUP && !p->dead && p->out_len == 0; i++) {
                struct frame_header h;
                struct frame f;

                if (p->in_len - used < FRAME_HEADER_SIZE)
                        break;
                r = frame_header_get(p->in + used, &h);
                if (r < 0 || p->in_len - used < FRAME_HEADER_SIZE + (size_t) h.len)
                        break;
                f = (struct frame){.version = h.version,
                                   .kind = h.kind,
                                   .data = p->in + used + FRAME_HEADER_SIZE,
                                   .len = h.len};
                used += FRAME_HEADER_SIZE + (size_t) h.len;
                p->handlers->frame(p, &f, p->userdata);
        }
        memmove(p->in, p->in + used, p->in_len - used);
        p->in_len -= used;
        return r;
}

/* How much room the frame that has begun needs, so that a small frame costs a small buffer. */
static size_t wanted_room(const struct frame_peer *p) {
        struct frame_header h;

        if (p->in_len >= FRAME_HEADER_SIZE && frame_header_get(p->in, &h) == 0)
                return MAX(p->in_len + READ_CHUNK, FRAME_HEADER_SIZE + (size_t) h.len);
        return p->in_len + READ_CHUNK;
}

static int peer_read(struct frame_peer *p) {
        ssize_t n;
        int r = peer_reserve(p, wanted_room(p));

        if (r < 0)
                return r;
        n = socket_receive(p->fd, p->in + p->in_len, p->in_size - p->in_len, &p->fd_in);
        if (n == 0)
                return -ECONNRESET;
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        p->in_len += (size_t) n;
        return 0;
}

static void peer_turn(struct frame_peer *p, uint32_t revents) {
        int r = 0;

        p->in_handler = true;
        if (p->out_len > 0)
                r = peer_flush(p);
        if (r >= 0 && p->out_len == 0 && !has_frame(p) && revents & (EPOLLIN | EPOLLHUP | EPOLLERR))
                r = peer_read(p);
        if (r >= 0)
                r = peer_dispatch(p);
        p->in_handler = false;
        if (p->dead)
                (void) frame_peer_free(p);
        else if (r < 0) {
                if (r != -ECONNRESET && r != -EPIPE)
                        (void) log_debug_errno(r, "local connection of pid %d ended: %m",
                                               (int) p->creds.pid);
                peer_close(p);
        } else
                peer_watch(p);
}

static int on_peer_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        (void) source;
        (void) fd;
        peer_turn(userdata, revents);
        return 0;
}

static int on_more(sd_event_source *source, void *userdata) {
        (void) source;
        peer_turn(userdata, 0);
        return 0;
}

static int peer_new(sd_event *e, int fd, const struct frame_handlers *h, void *userdata,
                    struct frame_peer **ret) {
        _cleanup_close_ int owned = fd;
        struct frame_peer *p;
        socklen_t len = sizeof(p->creds);
        int r;

        p = calloc(1, sizeof(*p));
        if (!p)
                return -ENOMEM;
        p->fd = TAKE_FD(owned);
        p->fd_in = p->fd_out = -1;
        p->handlers = h;
        p->userdata = userdata;
        r = getsockopt(p->fd, SOL_SOCKET, SO_PEERCRED, &p->creds, &len) < 0 ? -errno : 0;
        if (r == 0)
                r = sd_event_add_io(e, &p->io, p->fd, EPOLLIN, on_peer_io, p);
        if (r >= 0)
                r = sd_event_add_defer(e, &p->more, on_more, p);
        if (r >= 0)
                r = sd_event_source_set_enabled(p->more, SD_EVENT_OFF);
        if (r < 0) {
                (void) frame_peer_free(p);
                return r;
        }
        (void) sd_event_source_set_description(p->io, "local-frame-peer");
        (void) sd_event_source_set_description(p->more, "local-frame-more");
        *ret = p;
        return 0;
}

int frame_peer_connect(sd_event *e, const char *path, const struct frame_handlers *h, void *userdata,
                       struct frame_peer **ret) {
        int fd = frame_connect(path); /* a Unix socket connects at once or says EAGAIN */

        return fd < 0 ? fd : peer_new(e, fd, h, userdata, ret);
}

int frame_peer_send(struct frame_peer *p, uint16_t kind, const ProtobufCMessage *m) {
        _cleanup_free_ uint8_t *buf = NULL;
        uint8_t *out;
        size_t len;
        int r;

        if (p->dead || p->fd < 0)
                return -EPIPE;
        r = frame_pack(kind, m, &buf, &len);
        if (r < 0)
                return r;
        if (p->out_len - p->out_sent + len > 2 * (size_t) FRAME_MAX)
                return -ENOBUFS;
        /* what was taken makes room: else one who reads slowly would grow it for ever */
        if (p->out_sent > 0) {
                memmove(p->out, p->out + p->out_sent, p->out_len - p->out_sent);
                p->out_len -= p->out_sent;
                p->out_sent = 0;
        }
        out = realloc(p->out, p->out_len + len);
        if (!out)
                return -ENOMEM;
        memcpy(out + p->out_len, buf, len);
        p->out = out;
        p->out_len += len;
        r = peer_flush(p);
        if (r < 0)
                return r;
        if (!p->in_handler)
                peer_watch(p);
        return 0;
}

int frame_peer_send_fd(struct frame_peer *p, uint16_t kind, const ProtobufCMessage *m, int fd) {
        if (p->out_len > 0 || p->fd_out >= 0) {
                (void) close_fd(fd);
                return -EBUSY;
        }
        p->fd_out = fd;
        return frame_peer_send(p, kind, m);
}

int frame_peer_take_fd(struct frame_peer *p) {
        return TAKE_FD(p->fd_in);
}

const struct ucred *frame_peer_creds(const struct frame_peer *p) {
        return &p->creds;
}

size_t frame_peer_groups(const struct frame_peer *p, gid_t *ret, size_t n) {
        socklen_t len = (socklen_t) (n * sizeof(*ret));

        return getsockopt(p->fd, SOL_SOCKET, SO_PEERGROUPS, ret, &len) < 0 ? 0 : len / sizeof(*ret);
}

void frame_peer_set_state(struct frame_peer *p, void *state) {
        p->state = state;
}

void *frame_peer_state(const struct frame_peer *p) {
        return p->state;
}

/* --- Server ------------------------------------------------------------------------------------------- */

static size_t peers_of_user(const struct frame_server *s, uid_t uid) {
        size_t n = 0;

        for (const struct frame_peer *p = s->peers; p; p = p->next)
                n += p->creds.uid == uid;
        return n;
}

/*
 * The oldest connection of the user who has the most: his place goes to a user who would still have fewer.
 * Root takes anybody's and loses none. NULL: all have as few as the newcomer.
 */
static struct frame_peer *whose_place(const struct frame_server *s, uid_t newcomer) {
        size_t most = newcomer == 0 ? 0 : peers_of_user(s, newcomer) + 1;
        struct frame_peer *found = NULL;

        for (struct frame_peer *p = s->peers; p; p = p->next) { /* the newest first */
                size_t n = p->creds.uid == 0 ? 0 : peers_of_user(s, p->creds.uid);

                if (n > most || (n > 0 && found && n == most)) {
                        most = n;
                        found = p;
                }
        }
        return found;
}

/* Whether a newcomer has a place: idle connections of some users must not keep the others away. */
static bool make_place(struct frame_server *s, uid_t newcomer) {
        struct frame_peer *p;

        if (newcomer != 0 && peers_of_user(s, newcomer) >= PEERS_OF_A_USER_MAX) {
                log_warning("user %u has %d local connections: one more was refused", (unsigned) newcomer,
                            PEERS_OF_A_USER_MAX);
                return false;
        }
        if (s->n_peers < FRAME_PEERS_MAX)
                return true;
        p = whose_place(s, newcomer);
        if (!p) {
                log_warning("more than %d local connections: one of user %u was refused", FRAME_PEERS_MAX,
                            (unsigned) newcomer);
                return false;
        }
        log_warning("more than %d local connections: the oldest of user %u, who has most, was ended",
                    FRAME_PEERS_MAX, (unsigned) p->creds.uid);
        peer_close(p);
        return true;
}

static void server_add(struct frame_server *s, int fd) {
        struct frame_peer *p;
        int r = peer_new(s->event, fd, s->handlers, s->userdata, &p);

        if (r < 0) {
                (void) log_warning_errno(r, "local connection was refused: %m");
                return;
        }
        if (!make_place(s, p->creds.uid)) {
                p->handlers = NULL;
                (void) frame_peer_free(p);
                return;
        }
        p->server = s;
        p->next = s->peers;
        p->previous = &s->peers;
        if (p->next)
                p->next->previous = &p->next;
        s->peers = p;
        s->n_peers++;
}

static int on_accept(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        struct frame_server *s = userdata;
        int peer;

        (void) source;
        (void) revents;
        peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (peer >= 0)
                server_add(s, peer);
        else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
                (void) log_warning_errno(errno, "local connection could not be accepted: %m");
        return 0;
}

int frame_server_new(sd_event *e, int listen_fd, const struct frame_handlers *h, void *userdata,
                     struct frame_server **ret) {
        struct frame_server *s = calloc(1, sizeof(*s));
        int r;

        if (!s) {
                (void) close_fd(listen_fd);
                return -ENOMEM;
        }
        s->event = sd_event_ref(e);
        s->fd = listen_fd;
        s->handlers = h;
        s->userdata = userdata;
        r = sd_event_add_io(e, &s->io, s->fd, EPOLLIN, on_accept, s);
        if (r < 0) {
                (void) frame_server_free(s);
                return r;
        }
        (void) sd_event_source_set_description(s->io, "local-frame-server");
        *ret = s;
        return 0;
}

struct frame_server *frame_server_free(struct frame_server *s) {
        if (!s)
                return NULL;
        while (s->peers)
                (void) frame_peer_free(s->peers);
        s->io = sd_event_source_disable_unref(s->io);
        s->fd = close_fd(s->fd);
        sd_event_unref(s->event);
        free(s);
        return NULL;
}

/* --- The listening socket ----------------------------------------------------------------------------- */

static int bind_new(const char *path, mode_t mode) {
        _cleanup_close_ int fd = -1, living = frame_connect(path);
        struct sockaddr_un address;
        int r;

        if (living >= 0 || living == -EAGAIN)
                return -EADDRINUSE; /* somebody serves it: a second daemon must not take it away */
        r = frame_address(path, &address);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        if (unlink(path) < 0 && errno != ENOENT)
                return -errno;
        /* The mode is set before listen(2), so that nobody connects while it is still the umask's. */
        if (bind(fd, (const struct sockaddr *) &address, sizeof(address)) < 0 || chmod(path, mode) < 0 ||
            listen(fd, SOMAXCONN) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int listen_socket(const char *path, mode_t mode) {
        int n = sd_listen_fds(true);

        if (n < 0)
                return n;
        if (n == 0)
                return bind_new(path, mode);
        if (n > 1 || sd_is_socket(SD_LISTEN_FDS_START, AF_UNIX, SOCK_STREAM, 1) <= 0)
                return -EINVAL;
        if (fcntl(SD_LISTEN_FDS_START, F_SETFL, O_NONBLOCK) < 0)
                return -errno;
        return SD_LISTEN_FDS_START;
}
