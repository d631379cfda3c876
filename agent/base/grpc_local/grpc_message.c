/* SPDX-License-Identifier: Apache-2.0 */
#include <strings.h>

#include "grpc_message.h"

static const char *const names[_GRPC_STATUS_MAX] = {
        [GRPC_OK] = "OK",
        [GRPC_CANCELLED] = "CANCELLED",
        [GRPC_UNKNOWN] = "UNKNOWN",
        [GRPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
        [GRPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
        [GRPC_NOT_FOUND] = "NOT_FOUND",
        [GRPC_ALREADY_EXISTS] = "ALREADY_EXISTS",
        [GRPC_PERMISSION_DENIED] = "PERMISSION_DENIED",
        [GRPC_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
        [GRPC_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
        [GRPC_ABORTED] = "ABORTED",
        [GRPC_OUT_OF_RANGE] = "OUT_OF_RANGE",
        [GRPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
        [GRPC_INTERNAL] = "INTERNAL",
        [GRPC_UNAVAILABLE] = "UNAVAILABLE",
        [GRPC_DATA_LOSS] = "DATA_LOSS",
        [GRPC_UNAUTHENTICATED] = "UNAUTHENTICATED",
};

const char *grpc_status_name(enum grpc_status s) {
        return (unsigned) s < _GRPC_STATUS_MAX ? names[s] : names[GRPC_UNKNOWN];
}

/* --- Frames ----------------------------------------------------------------------------------------- */

void grpc_frame_head(uint8_t head[static GRPC_FRAME_HEAD], uint32_t len) {
        head[0] = 0;
        head[1] = (uint8_t) (len >> 24);
        head[2] = (uint8_t) (len >> 16);
        head[3] = (uint8_t) (len >> 8);
        head[4] = (uint8_t) len;
}

int grpc_frame_next(const uint8_t *data, size_t len, size_t max, struct grpc_frame *ret) {
        size_t body;

        if (len > 0 && data[0] > 1)
                return -EBADMSG;
        if (len < GRPC_FRAME_HEAD)
                return 0;
        body = (size_t) data[1] << 24 | (size_t) data[2] << 16 | (size_t) data[3] << 8 | data[4];
        if (body > max)
                return -EMSGSIZE;
        if (len - GRPC_FRAME_HEAD < body)
                return 0;
        *ret = (struct grpc_frame){ .packed = data[0] == 1, .data = data + GRPC_FRAME_HEAD, .len = body };
        return 1;
}

/* --- Headers ---------------------------------------------------------------------------------------- */

static int hex(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        c = (char) (c | 0x20);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decodes; what a terminal might obey, and all beyond ASCII, becomes '?'. */
static void decode(const char *value, size_t len, char text[static GRPC_WHY_MAX]) {
        size_t n = 0;

        for (size_t i = 0; i < len && n + 1 < GRPC_WHY_MAX; i++) {
                char c = value[i];

                if (c == '%' && len - i > 2 && hex(value[i + 1]) >= 0 && hex(value[i + 2]) >= 0) {
                        c = (char) (hex(value[i + 1]) << 4 | hex(value[i + 2]));
                        i += 2;
                }
                text[n++] = c >= ' ' && c <= '~' ? c : '?';
        }
        text[n] = '\0';
}

static enum grpc_status parse_status(const char *value, size_t len) {
        unsigned n = 0;

        if (len < 1 || len > 2)
                return GRPC_UNKNOWN;
        for (size_t i = 0; i < len; i++) {
                if (value[i] < '0' || value[i] > '9')
                        return GRPC_UNKNOWN;
                n = n * 10 + (unsigned) (value[i] - '0');
        }
        return n < _GRPC_STATUS_MAX ? (enum grpc_status) n : GRPC_UNKNOWN;
}

/* Whether the line is of that name (with its colon); then value and len are what it says. */
static bool header_is(const char *line, size_t len, const char *name, const char **value, size_t *ret_len) {
        size_t at = strlen(name);

        if (len < at || strncasecmp(line, name, at) != 0)
                return false;
        while (at < len && (line[at] == ' ' || line[at] == '\t'))
                at++;
        while (len > at && (line[len - 1] == '\r' || line[len - 1] == '\n' || line[len - 1] == ' '))
                len--;
        *value = line + at;
        *ret_len = len - at;
        return true;
}

void grpc_head_take(struct grpc_head *h, const char *line, size_t len) {
        static const char type[] = "application/grpc";
        const char *value;
        size_t n;

        if (header_is(line, len, "grpc-status:", &value, &n)) {
                h->has_status = true;
                h->status = parse_status(value, n);
        } else if (header_is(line, len, "grpc-message:", &value, &n))
                decode(value, n, h->message);
        else if (header_is(line, len, "content-type:", &value, &n))
                h->is_grpc = n >= sizeof(type) - 1 && memcmp(value, type, sizeof(type) - 1) == 0;
}
