/* SPDX-License-Identifier: Apache-2.0 */
/* The Retry-After header of any server: never a wait longer than the limit, never a date taken for seconds.
 */
#include <assert.h>

#include "retry_after.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char text[64]; /* what the sender keeps of it */
        usec_t now = 0, wait = USEC_INFINITY;

        if (size < sizeof(now))
                return 0;
        memcpy(&now, data, sizeof(now));
        now /= 1024; /* until the year 2500 or so */
        size -= sizeof(now);
        if (size >= sizeof(text) || memchr(data + sizeof(now), 0, size))
                return 0;
        memcpy(text, data + sizeof(now), size);
        text[size] = '\0';
        if (backoff_parse_retry_after(text, now, &wait) < 0) {
                assert(wait == USEC_INFINITY);
                return 0;
        }
        assert(wait <= BACKOFF_RETRY_AFTER_MAX);
        assert(size > 0);
        if (strspn(text, "0123456789") == size)
                assert(wait % USEC_PER_SEC == 0);
        return 0;
}
