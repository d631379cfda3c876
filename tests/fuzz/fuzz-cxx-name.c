/* SPDX-License-Identifier: Apache-2.0 */
/* C++ symbols out of a stranger's ELF file: a name within its bounds, or none. */
#include <assert.h>

#include "cxx_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *symbol = malloc(size + 3);
        char name[CXX_NAME_MAX];

        assert(symbol);
        memcpy(symbol, "_Z", 2);
        memcpy(symbol + 2, data, size);
        symbol[size + 2] = '\0';
        if (cxx_name(symbol, name) == 0)
                assert(name[0] && strlen(name) < sizeof(name));
        return 0;
}
