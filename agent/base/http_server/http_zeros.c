/* SPDX-License-Identifier: Apache-2.0 */
#include "http_zeros.h"

#define BLOCK ((size_t) 64 * 1024) /* of one connection, while it goes on */

struct zeros {
        bool (*goes_on)(void *body);
        void (*release)(void *body);
        void *body;
};

static ssize_t fill(void *userdata, uint64_t at, char *buf, size_t size) {
        const struct zeros *z = userdata;

        (void) at;
        if (!z->goes_on(z->body))
                return MHD_CONTENT_READER_END_WITH_ERROR;
        memset(buf, 0, size);
        return (ssize_t) size;
}

static void end(void *userdata) {
        _cleanup_free_ struct zeros *z = userdata;

        z->release(z->body);
}

struct MHD_Response *http_zeros(struct http_reply *reply) {
        _cleanup_free_ struct zeros *z = calloc(1, sizeof(*z));
        struct MHD_Response *m;

        if (!z)
                return NULL;
        *z = (struct zeros){ .goes_on = reply->goes_on, .release = reply->release, .body = reply->body };
        m = MHD_create_response_from_callback(reply->zeros, BLOCK, fill, z, end);
        if (!m)
                return NULL;
        (void) TAKE_PTR(z);
        reply->body = NULL;
        return m;
}
