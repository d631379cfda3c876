/* SPDX-License-Identifier: Apache-2.0 */
/* Any answer of the metadata server, and any last good copy. What is taken is in bounds, and a copy of it
 * comes back. */
#include "metadata_copy.h"

static void check(const struct metadata_facts *f) {
        if (f->n_nics > METADATA_NICS_MAX)
                abort();
        for (size_t i = 0; i < f->n_nics; i++)
                if (f->nics[i].mtu > 65535)
                        abort();
}

static void check_round(const struct metadata_facts *f) {
        struct metadata_copy c = { .facts = *f, .taken = 1 }, back;
        char *text = metadata_copy_format(&c), why[METADATA_WHY_MAX];

        if (!text || metadata_copy_parse(text, strlen(text), &back, why) < 0 ||
            !metadata_facts_equal(f, &back.facts))
                abort();
        metadata_facts_clear(&back.facts);
        free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct metadata_answer a = { .status = 200,
                                     .content_type = "application/json",
                                     .flavored = true,
                                     .body = data,
                                     .len = size };
        char why[METADATA_WHY_MAX];
        struct metadata_copy c;

        for (enum metadata_key k = 0; k < _METADATA_KEY_MAX; k++) {
                struct metadata_facts f = { 0 };

                if (metadata_take(&f, k, &a, why) < 0)
                        continue;
                check(&f);
                if (k == METADATA_NICS)
                        check_round(&f);
                metadata_facts_clear(&f);
        }
        if (metadata_copy_parse((const char *) data, size, &c, why) == 0) {
                check(&c.facts);
                check_round(&c.facts);
                metadata_facts_clear(&c.facts);
        }
        return 0;
}
