/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* protobuf-c's strings are not const, though packing only reads them. */
static inline char *wire_text(const char *s) {
        union {
                const char *in;
                char *out;
        } u = { .in = s };

        return u.out;
}
