/* SPDX-License-Identifier: Apache-2.0 */
/* Any Accept header is understood or passed over. */
#include <assert.h>

#include "exposition.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *text = malloc(size + 1);

        if (!text)
                return 0;
        if (size > 0)
                memcpy(text, data, size);
        text[size] = 0;
        if (exposition_wants_open_metrics(text))
                assert(strcasestr(text, "application/openmetrics-text"));
        return 0;
}
