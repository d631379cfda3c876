/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "scratch.h"
#include "test.h"

static void test_machines(void) {
        static const struct {
                uint16_t device;
                const char *generation;
                uint32_t hbm_gib, functions;
        } chips[] = { { 0x5e, "v4", 32, 1 },    { 0x62, "v5p", 95, 1 },   { 0x63, "v5e", 16, 1 },
                      { 0x6f, "v6e", 32, 1 },   { 0x76, "tpu7x", 192, 2 }, { 0x27, "v2/v3", 0, 1 },
                      { 0x83, "tpu8i", 0, 1 }, { 0x7c, "tpu8t", 0, 1 } };
        static const char *const unknown[] = { "ct6e-standard-2t", "ct6e-standard-", "n1-standard-16", "",
                                               "-4t",
                                               "ct6e-standardx-4t", "ct6e-standard-4t]",
                                               "a-name-that-is-far-too-long-for-any-machine-type" };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL, shipped = HOST_NULL;
        struct machine_chip chip;
        struct machine_type type;
        char text[8192];

        ASSERT_OK(host_open(FIXTURES "/../..", &shipped));
        ASSERT_OK(host_read(&shipped, "/netcfg/machines.conf", text, sizeof(text), NULL));
        scratch_write(&s, "usr/lib/tpu-hostd/machines.conf", text);
        ASSERT_OK(host_open(s.path, &h));
        for (size_t k = 0; k < ELEMENTSOF(chips); k++) {
                ASSERT_OK(machine_chip(&h, chips[k].device, &chip));
                ASSERT_STREQ(chip.generation, chips[k].generation);
                ASSERT_EQ(chip.hbm_gib, chips[k].hbm_gib);
                ASSERT_EQ(chip.functions, chips[k].functions);
                ASSERT_TRUE(chip.source[0] != '\0');
        }
        ASSERT_EQ(machine_chip(&h, 0x42, &chip), -ENOENT); /* gVNIC */
        ASSERT_OK(machine_type(&h, "ct6e-standard-4t", &type));
        ASSERT_EQ(type.chips, 4);
        ASSERT_EQ(type.nics, 2);
        ASSERT_OK(machine_type(&h, "ct5lp-hightpu-8t", &type));
        ASSERT_EQ(type.chips, 8);
        ASSERT_EQ(type.nics, 0);
        for (size_t k = 0; k < ELEMENTSOF(unknown); k++)
                ASSERT_EQ(machine_type(&h, unknown[k], &type), -ENOENT);
        scratch_write(&s, "usr/lib/tpu-hostd/machines.conf",
                      "[Machine ct6e-standard-1t]\nGeneration=v6e\nChips=1\n");
        ASSERT_EQ(machine_type(&h, "ct6e-standard-1t", &type), -ENOENT); /* no source: refused */
        ASSERT_EQ(machine_type(&shipped, "ct6e-standard-1t", &type), -ENOPKG);
}

TEST_MAIN(test_machines)
