/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_shape.h"

#define CHIPS_SOURCE \
        "machine types of axlearn system_characteristics.py and GoogleCloudPlatform/cluster-toolkit"

static const struct {
        const char *family, *generation;
        const char *sizes; /* "-1t-" … */
} families[] = {
        { "ct4p-hightpu", "v4", "-4t-" },         { "ct5lp-hightpu", "v5e", "-1t-4t-8t-" },
        { "ct5p-hightpu", "v5p", "-4t-" },        { "ct6e-standard", "v6e", "-1t-4t-8t-" },
        { "tpu7x-standard", "tpu7x", "-1t-4t-" },
};

/* The second NIC is a network of its own that whoever makes the VM must attach. */
static const struct {
        const char *type;
        uint32_t nics;
        const char *source;
} nic_counts[] = { { "ct6e-standard-4t", 2, "google/dranet, ct6e-standard-4t example: two physical NICs" } };

int machine_find(const char *type, struct machine *ret) {
        struct machine m = { .chips_source = CHIPS_SOURCE };
        const char *size = strrchr(type, '-');
        char word[8];

        if (!size || strlen(size) != 3 || size[1] < '1' || size[1] > '9' || size[2] != 't')
                return -ENOENT;
        (void) snprintf(word, sizeof(word), "%s-", size);
        for (size_t i = 0; i < ELEMENTSOF(families); i++)
                if (strlen(families[i].family) == (size_t) (size - type) &&
                    startswith(type, families[i].family) && strstr(families[i].sizes, word)) {
                        m.chips = (uint32_t) (size[1] - '0');
                        m.generation = families[i].generation;
                }
        if (!m.generation)
                return -ENOENT;
        for (size_t i = 0; i < ELEMENTSOF(nic_counts); i++)
                if (streq(nic_counts[i].type, type)) {
                        m.nics = nic_counts[i].nics;
                        m.nics_source = nic_counts[i].source;
                }
        *ret = m;
        return 0;
}
