/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any tpu-env. What is taken is a field's text, says where it is from, and comes back through identity's own
 * parsers.
 */
#include "fuzz-identity-fields.h"
#include "tpu_env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        char why[TPU_ENV_WHY_MAX];
        int r = tpu_env_parse((const char *) data, size, "fuzz", &i, why);

        if (r < 0 && !why[0])
                abort();
        check_fields(&i, r);
        return 0;
}
