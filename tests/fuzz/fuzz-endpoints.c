/* SPDX-License-Identifier: Apache-2.0 */
/* Any worker-network-endpoints. As many names as addresses, or one of both alone. */
#include "fuzz-identity-fields.h"
#include "tpu_env.h"

static size_t count(const char *list) {
        size_t n = 1;

        for (; *list; list++)
                n += *list == ',';
        return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        const char *names, *addresses;
        char why[TPU_ENV_WHY_MAX];
        int r = tpu_endpoints_parse((const char *) data, size, "fuzz", &i, why);

        if (r < 0 && !why[0])
                abort();
        check_fields(&i, r);
        names = identity_get(&i, IDENTITY_WORKER_HOSTNAMES);
        addresses = identity_get(&i, IDENTITY_WORKER_ADDRESSES);
        if (r == 0 && ((!names && !addresses) || (names && addresses && count(names) != count(addresses))))
                abort();
        return 0;
}
