/* SPDX-License-Identifier: Apache-2.0 */
#include "identity_facts.h"

/* What only follows from other fields follows there, too. */
void identity_facts_fill(const struct identity *i, struct identity_facts *ret) {
        size_t n = 0;

        local__world__init(&ret->world);
        for (enum identity_field f = 0; f < _IDENTITY_FIELD_MAX; f++) {
                if (!i->fields[f].text || identity_is_derived(i, f))
                        continue;
                local__fact__init(&ret->items[n]);
                ret->items[n].field = (char *) (uintptr_t) identity_field_name(f);
                ret->items[n].value = i->fields[f].text;
                ret->items[n].origin = (char *) (uintptr_t) i->fields[f].origin; /* packing only reads it */
                ret->list[n] = &ret->items[n];
                n++;
        }
        ret->world.fact = ret->list;
        ret->world.n_fact = n;
}
