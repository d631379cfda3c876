/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any content of the file originals of the runtime directory: what is taken names nothing but what netcfg
 * writes, comes back when it is written again, and follows the names of NICs within its bounds.
 */
#include <assert.h>

#include "originals.h"

#define BOOT_ID "6f6c0b2e-8d3c-4a55-9a7c-6f2b9d1f0c11"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_originals_ struct originals one = ORIGINALS_NULL, two = ORIGINALS_NULL;
        struct link nic = {
                .index = 2, .name = "enp0s3.1234567", .address = { 2, 0, 0, 0, 0, 10 }, .address_len = 6
        };
        struct link_table links = { &nic, 1 };
        _cleanup_free_ char *text = NULL;
        size_t len;

        if (originals_parse((const char *) data, size, BOOT_ID, &one) < 0)
                return 0;
        assert(originals_format(&one, BOOT_ID, &text, &len) == 0);
        assert(originals_parse(text, len, BOOT_ID, &two) == 0);
        assert(one.n == two.n);
        assert(one.n == 0 || memcmp(one.items, two.items, one.n * sizeof(*one.items)) == 0);
        for (size_t k = 0; k < one.n; k++)
                assert(!op_is_source(one.items[k].kind) &&
                       (one.items[k].kind != OP_SYSCTL || startswith(one.items[k].subject, "net.")));
        originals_follow(&one, &links);
        return 0;
}
