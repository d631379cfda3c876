/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Every field that is there is one that identity takes; after a failure there is none. */
#include "identity.h"

static inline void check_fields(const struct identity *i, int result) {
        for (enum identity_field f = 0; f < _IDENTITY_FIELD_MAX; f++) {
                _cleanup_identity_ struct identity back = IDENTITY_NULL;
                const char *text = identity_get(i, f);

                if (!text)
                        continue;
                if (result < 0 || strcmp(i->fields[f].origin, "fuzz") != 0 ||
                    identity_add(&back, f, text, "back") < 0 || strcmp(identity_get(&back, f), text) != 0)
                        abort();
        }
}
