/* SPDX-License-Identifier: Apache-2.0 */
/* Any answer of the ethtool family. The first byte says what was asked. */
#include "ethtool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct ethtool_bit bits[] = { { .name = "tx-nocache-copy" }, { .name = "enable-max-rx-buffer-size" },
                                      { .name = "report-stats" } };
        uint16_t family = 0;
        uint32_t monitor = 0;
        int r;

        if (size == 0)
                return 0;
        r = ethtool_parse(data + 1, size - 1, data[0] & 1 ? ETHTOOL_FEATURES : ETHTOOL_PRIVATE_FLAGS,
                          data[0] >> 1, bits, ELEMENTSOF(bits));
        if (r > 0)
                abort();
        for (size_t i = 0; i < ELEMENTSOF(bits); i++)
                if (!bits[i].known && bits[i].changeable)
                        abort();
        r = ethtool_parse_family(data + 1, size - 1, &family, &monitor);
        if (r > 0 || (r == 0 && family < 16))
                abort();
        (void) ethtool_tells_bits(data, size);
        return 0;
}
