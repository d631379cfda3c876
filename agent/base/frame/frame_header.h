/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What frame.c and frame_loop.c share and nobody else sees. They are two files, because who only calls must
 * not load libsystemd, which is most of what it costs to start a small program.
 */
#include <assert.h>
#include <endian.h>
#include <sys/un.h>

#include "frame.h"

#define FRAME_HEADER_SIZE 8 /* bytes before each payload */

struct frame_header {
        uint32_t len;
        uint16_t version, kind;
};

static inline void frame_header_put(uint8_t out[static FRAME_HEADER_SIZE], uint32_t len, uint16_t kind) {
        const uint32_t l = htole32(len);
        const uint16_t v = htole16(FRAME_VERSION), k = htole16(kind);

        assert(len <= FRAME_MAX);
        memcpy(out, &l, 4);
        memcpy(out + 4, &v, 2);
        memcpy(out + 6, &k, 2);
}

/* -EBADMSG: longer than FRAME_MAX; -EPROTONOSUPPORT: neither our version nor the one before. */
static inline int frame_header_get(const uint8_t in[static FRAME_HEADER_SIZE], struct frame_header *ret) {
        uint32_t l;
        uint16_t v, k;

        memcpy(&l, in, 4);
        memcpy(&v, in + 4, 2);
        memcpy(&k, in + 6, 2);
        *ret = (struct frame_header) { .len = le32toh(l), .version = le16toh(v), .kind = le16toh(k) };
        if (ret->len > FRAME_MAX)
                return -EBADMSG;
        if (ret->version > FRAME_VERSION || ret->version + 1 < FRAME_VERSION || ret->version == 0)
                return -EPROTONOSUPPORT;
        return 0;
}

/* Packs header and message into one malloc'ed buffer. -E2BIG past FRAME_MAX. */
int frame_pack(uint16_t kind, const ProtobufCMessage *m, uint8_t **ret, size_t *ret_len);
/* The address of a local socket. -ENAMETOOLONG: path does not fit. */
int frame_address(const char *path, struct sockaddr_un *ret);

/* Bytes over a Unix stream socket, with a descriptor beside them (unix(7), SCM_RIGHTS). No call blocks. */

/* As send(2). *fd, unless it is -1, goes with the first byte; then it is closed and -1. */
ssize_t socket_send(int socket, const void *data, size_t len, int *fd);
/* As recv(2). A descriptor that comes along takes the place of *fd, which is closed. */
ssize_t socket_receive(int socket, void *buf, size_t size, int *fd);
