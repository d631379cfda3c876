/* SPDX-License-Identifier: Apache-2.0 */
/* Any answer of a registry: what is taken is bounded, and of the kinds that are known. */
#include "sync_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_sync_answer_ struct sync_answer a = SYNC_ANSWER_NULL;
        char why[SYNC_WHY_MAX] = "";
        const char *key;
        json_t *value;

        if (sync_answer_parse((const char *) data, size, &a, why) < 0) {
                if (!why[0] || memchr(why, 0, sizeof(why)) == NULL)
                        abort();
                return 0;
        }
        if (a.lease < SYNC_LEASE_MIN || a.lease > SYNC_LEASE_MAX)
                abort();
        json_object_foreach(a.records, key, value)
                if (strlen(key) > 160 || (!json_is_object(value) && !json_is_null(value)))
                        abort();
        return 0;
}
