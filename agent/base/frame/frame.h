/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Local frames: bounded protobuf messages over a Unix stream socket, the only language between our daemons.
 * A frame is 8 bytes {u32 payload length, u16 version, u16 kind}, little endian, then the payload. The kinds
 * are proto/local.proto's enum Kind. The peer's credentials come from the kernel (SO_PEERCRED) and are those
 * of its connect(2). A frame longer than FRAME_MAX, or of a version that is neither ours nor the one before,
 * ends the connection.
 */
#include <sys/socket.h>
#include <sys/types.h>

#include <protobuf-c/protobuf-c.h>
#include <systemd/sd-event.h>

#include "base.h"

#define FRAME_MAX (1024 * 1024)
#define FRAME_VERSION 1
#define FRAME_PATIENCE (30 * USEC_PER_SEC)
#define FRAME_PEERS_MAX 64 /* connections one server holds at a time */

struct frame {
        uint16_t version, kind;
        const uint8_t *data; /* owned by the connection, valid inside the handler only */
        size_t len;
};

/* protobuf-c's messages hold writable pointers, also where it only reads: texts of a message. */
static inline char *wire_text(const char *s) {
        return (char *) (uintptr_t) s;
}

/* --- Blocking client, for command-line programs ------------------------------------------------------- */

/* Connects to a socket path. Returns a descriptor or -errno (-ENOENT, -ECONNREFUSED, -EACCES …). */
int frame_connect(const char *path);
/* Sends one message within timeout. */
int frame_send(int fd, uint16_t kind, const ProtobufCMessage *m, usec_t timeout);
/* Receives one frame within timeout; *ret_buf is malloc'ed and ret->data points into it. -ECONNRESET when
 * the peer closed. */
int frame_receive(int fd, usec_t timeout, struct frame *ret, uint8_t **ret_buf);

/* --- Server and asynchronous client, in an sd-event loop ---------------------------------------------- */

struct frame_peer;
struct frame_server;

struct frame_handlers {
        /* One whole frame. Answer with frame_peer_send() now or later. */
        void (*frame)(struct frame_peer *p, const struct frame *f, void *userdata);
        /* The peer is gone (or broke the rules); p is freed after this returns. May be NULL. */
        void (*closed)(struct frame_peer *p, void *userdata);
        usec_t patience; /* of a server: who has not taken its answers by then is gone; 0: FRAME_PATIENCE */
};

/* Serves listen_fd (taken over). */
int frame_server_new(sd_event *e, int listen_fd, const struct frame_handlers *h, void *userdata,
                     struct frame_server **ret);
struct frame_server *frame_server_free(struct frame_server *s);
DEFINE_CLEANUP(struct frame_server *, frame_server_free)

/* Opens a connection without blocking; handlers run in the loop. The caller owns *ret until closed ran. */
int frame_peer_connect(sd_event *e, const char *path, const struct frame_handlers *h, void *userdata,
                       struct frame_peer **ret);
/* Queues a message; -ENOBUFS when more than FRAME_MAX bytes wait, -EPIPE when the peer is gone. */
int frame_peer_send(struct frame_peer *p, uint16_t kind, const ProtobufCMessage *m);
/* The same with a descriptor, which is taken over in any case. -EBUSY while an earlier message waits. */
int frame_peer_send_fd(struct frame_peer *p, uint16_t kind, const ProtobufCMessage *m, int fd);
/* The descriptor that came last, which is the caller's then; -1: none did. One that nobody asks for is
 * closed with the connection. */
int frame_peer_take_fd(struct frame_peer *p);
/* Who is at the other end. */
const struct ucred *frame_peer_creds(const struct frame_peer *p);
/* The supplementary groups that its process had then. Returns how many; 0 also when there is no room. */
size_t frame_peer_groups(const struct frame_peer *p, gid_t *ret, size_t n);
/* A place for the user of the connection to hang its own state (not freed). */
void frame_peer_set_state(struct frame_peer *p, void *state);
void *frame_peer_state(const struct frame_peer *p);
/* Ends the connection; closed is not called. */
struct frame_peer *frame_peer_free(struct frame_peer *p);

/*
 * The listening socket of a daemon: the first one passed by systemd (LISTEN_FDS), else path is bound (a
 * socket file that nobody serves is removed first) with the mode. Returns a non-blocking descriptor or
 * -errno; -EADDRINUSE: somebody serves it.
 */
int listen_socket(const char *path, mode_t mode);
