/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What gRPC puts on HTTP/2: messages in frames of five bytes and a body, and a status among the trailers.
 * Pure. The form: github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md; the numbers of a status: doc/statuscodes.md.
 */
#include "base.h"

#define GRPC_FRAME_HEAD 5
#define GRPC_WHY_MAX 256

enum grpc_status {
        GRPC_OK = 0,
        GRPC_CANCELLED,
        GRPC_UNKNOWN,
        GRPC_INVALID_ARGUMENT,
        GRPC_DEADLINE_EXCEEDED,
        GRPC_NOT_FOUND,
        GRPC_ALREADY_EXISTS,
        GRPC_PERMISSION_DENIED,
        GRPC_RESOURCE_EXHAUSTED,
        GRPC_FAILED_PRECONDITION,
        GRPC_ABORTED,
        GRPC_OUT_OF_RANGE,
        GRPC_UNIMPLEMENTED,
        GRPC_INTERNAL,
        GRPC_UNAVAILABLE,
        GRPC_DATA_LOSS,
        GRPC_UNAUTHENTICATED,
        _GRPC_STATUS_MAX,
};

/* What the header lines of one answer said, trailers included. Begins zeroed. */
struct grpc_head {
        bool has_status, is_grpc;
        enum grpc_status status;    /* GRPC_UNKNOWN for a number that is none */
        char message[GRPC_WHY_MAX]; /* percent-decoded, printable; may be empty */
};

/* Writes the head of a frame with a body of len bytes. */
void grpc_frame_head(uint8_t head[static GRPC_FRAME_HEAD], uint32_t len);

struct grpc_frame {
        bool packed;
        const uint8_t *data; /* into the buffer */
        size_t len;
};

/*
 * The first frame of a buffer. Returns 1 with *ret; 0: it is not whole yet; -EMSGSIZE: it says that it is
 * longer than max, which is known from its head on; -EBADMSG: its flag is none.
 */
int grpc_frame_next(const uint8_t *data, size_t len, size_t max, struct grpc_frame *ret);

/* Takes one header line, "name: value" with or without its end; what is not gRPC's is passed over. */
void grpc_head_take(struct grpc_head *h, const char *line, size_t len);
const char *grpc_status_name(enum grpc_status s);
