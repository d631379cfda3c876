/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server of gRPC answers. First byte: the frames of a body, or headers, "name:value" a line. Frames
 * tile the body and stay inside of it, and what a person reads is printable.
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
        _cleanup_free_ char *text = strndup((const char *) data, size);
        struct grpc_head h = { 0 };

        for (char *rest = text, *line; rest && (line = strsep(&rest, "\n"));) {
                char *name = strsep(&line, ":");

                grpc_head_take(&h, name, line ? line : "");
        }
        assert(h.status <= 16 && strlen(h.message) < sizeof(h.message));
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
