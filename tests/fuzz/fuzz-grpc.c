/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server of gRPC answers. First byte: the frames of a body, or header lines. Frames tile the body and
 * stay inside of it, and what a person reads is printable.
 */
#include <assert.h>

#include "grpc_session.h"

#define LEN_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void frames(const uint8_t *data, size_t size) {
        struct grpc_frame f;
        size_t at = 0;

        while (grpc_frame_next(data + at, size - at, LEN_MAX, &f) > 0) {
                assert(f.data == data + at + GRPC_FRAME_HEAD && f.len <= LEN_MAX &&
                       f.len <= size - at - GRPC_FRAME_HEAD);
                at += GRPC_FRAME_HEAD + f.len;
        }
}

static void lines(const uint8_t *data, size_t size) {
        struct grpc_head h = { 0 };

        for (size_t at = 0; at < size;) {
                const uint8_t *end = memchr(data + at, '\n', size - at);
                size_t n = end ? (size_t) (end - data) + 1 - at : size - at;

                grpc_head_take(&h, (const char *) data + at, n);
                at += n;
        }
        assert((unsigned) h.status < _GRPC_STATUS_MAX && strlen(h.message) < sizeof(h.message));
        for (const char *c = h.message; *c; c++)
                assert(*c >= ' ' && *c <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (size < 1)
                return 0;
        if (data[0] % 2 == 0)
                frames(data + 1, size - 1);
        else
                lines(data + 1, size - 1);
        return 0;
}
