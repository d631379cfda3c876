/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The bytes of a HostCapture (proto/capture.proto) in three: its strings, its arrays of numbers, and the few fields that
 * are left. Strings and numbers are nearly all of a capture and are read where they lie; the rest is protobuf-c's.
 * Pure; the bytes are hostile input.
 */
#include "base.h"

#define CAPTURE_STRINGS 20u /* field number */

enum wire_array {
        WIRE_FRAME_KIND,
        WIRE_FRAME_FILE,
        WIRE_FRAME_FUNCTION,
        WIRE_FRAME_LINE,
        WIRE_STACK_LENGTH,
        WIRE_STACK_FRAMES,
        WIRE_THREAD_STACK,
        WIRE_THREAD_NAME,
        WIRE_THREAD_WAIT,
        WIRE_THREAD_SYSCALL,
        WIRE_THREAD_TID,
        WIRE_THREAD_FLAGS,
        _WIRE_ARRAY_MAX,
};

/* Packed numbers. */
struct wire_numbers {
        const uint8_t *next;
        size_t n; /* how many are left */
};

struct capture_parts {
        const uint8_t *strings, *end; /* strings: NULL when there is none */
        size_t n_strings;
        struct wire_numbers arrays[_WIRE_ARRAY_MAX];
        uint8_t *rest; /* owned */
        size_t rest_len;
};
#define CAPTURE_PARTS_NULL ((struct capture_parts){ 0 })
void capture_parts_clear(struct capture_parts *p);
#define _cleanup_capture_parts_ _cleanup_(capture_parts_clear)

/* data is borrowed. -EPROTO: not as capture.proto says (why), -ENOMEM. */
int capture_parts_split(const uint8_t *data, size_t len, struct capture_parts *ret, const char **ret_why);

/* Moves *at behind a string of less than 128 bytes; false: there stands something else. Nearly all are. */
static inline bool capture_parts_skip_short(const uint8_t **at, const uint8_t *end) {
        const uint8_t *p = *at;

        if (end - p < 3 || p[0] != ((CAPTURE_STRINGS << 3 & 0x7f) | 0x82) || p[1] != CAPTURE_STRINGS >> 4 ||
            p[2] & 0x80 || end - p - 3 < p[2])
                return false;
        *at = p + 3 + p[2];
        return true;
}

const char *capture_parts_any_string(struct capture_parts *p, size_t *ret_len);
/* The next string, not ended by NUL; to be called n_strings times. */
static inline const char *capture_parts_string(struct capture_parts *p, size_t *ret_len) {
        const uint8_t *from = p->strings;

        if (!capture_parts_skip_short(&p->strings, p->end))
                return capture_parts_any_string(p, ret_len);
        *ret_len = from[2];
        return (const char *) from + 3;
}

/* The next number; n must not be 0. What has more than 32 bits loses the upper ones, as protobuf has it. */
static inline uint32_t wire_number(struct wire_numbers *w) {
        const uint8_t *p = w->next;
        uint32_t v = *p++;

        if (v & 0x80) {
                unsigned shift = 7;

                v &= 0x7f;
                for (; *p & 0x80; p++, shift += 7) /* the last byte of all has no such bit */
                        v |= shift < 32 ? (uint32_t) (*p & 0x7f) << shift : 0;
                v |= shift < 32 ? (uint32_t) *p << shift : 0;
                p++;
        }
        w->next = p;
        w->n--;
        return v;
}
