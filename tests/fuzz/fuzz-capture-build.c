/* SPDX-License-Identifier: Apache-2.0 */
/* What tpu-stack prints, as tpu-hostd makes a host's part of a capture of it: whatever is accepted can be read again, and merged. */
#include "capture_build.h"
#include "capture_wire.h"
#include "pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void read_again(const struct built_capture *b) {
        _cleanup_host_capture_ struct host_capture c;
        _cleanup_stack_table_ struct stack_table t = STACK_TABLE_NULL;
        const char *why;

        host_capture_init(&c);
        if (b->packed_len > CAPTURE_SEND_MAX || capture_wire_unpack(b->wire, b->len, &c, &t, &why) < 0)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
        const struct capture_about about = {
                .slice = "s", .host = "h", .address = "", .episode = "e", .step = -1
        };
        _cleanup_built_capture_ struct built_capture b = { 0 };
        _cleanup_(pack_freep) struct pack *p = NULL;
        const uint8_t *stacks;
        size_t n;
        char why[200];

        if (pack_new(4 * 1024 * 1024, 4 * 1024 * 1024, &p) < 0 ||
            pack_add(p, (const char *) data, len) < 0 || pack_end(p, &stacks, &n) < 0)
                return 0;
        if (capture_build(stacks, n, &about, &b, why) == 0)
                read_again(&b);
        return 0;
}
