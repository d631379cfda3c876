/* SPDX-License-Identifier: Apache-2.0 */
/* Any file network-mtu of the runtime directory: what is taken comes back when it is written again. */
#include "network.h"

#define BOOT_ID "6f6c0b2e-8d3c-4a55-9a7c-6f2b9d1f0c11"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct intent one, two;
        char text[INTENT_NETWORKS_TEXT_MAX];
        int n;

        one = two = (struct intent) { 0 };
        if (intent_networks_parse((const char *) data, size, BOOT_ID, &one) < 0)
                return 0;
        for (size_t k = 0; k < one.n_networks; k++)
                if (one.networks[k].mtu < INTENT_MTU_MIN || one.networks[k].mtu > INTENT_MTU_MAX)
                        abort();
        n = intent_networks_format(&one, BOOT_ID, text);
        if (n < 0 || intent_networks_parse(text, (size_t) n, BOOT_ID, &two) < 0 ||
            one.n_networks != two.n_networks ||
            memcmp(one.networks, two.networks, sizeof(one.networks)) != 0)
                abort();
        return 0;
}
