/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of container engines' logs: the first byte says which form. */
#include <assert.h>

#include "container_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct container_entry e = { .len = 0 };
        char *entry, buf[256];

        if (size == 0)
                return 0;
        entry = malloc(size); /* of this very size: what is read behind it is found */
        if (!entry)
                return 0;
        memcpy(entry, data + 1, size - 1);
        if (container_entry_parse(data[0] == 'k' ? "k8s-file" : "json-file", entry, size - 1, buf,
                                  sizeof(buf), &e) == 0)
                assert(e.len <= sizeof(buf));
        free(entry);
        return 0;
}
