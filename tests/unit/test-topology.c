/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every accelerator type that public sources name, against what they say of it: xpk's and axlearn's
 * system_characteristics.py (topology, machine type, hosts), torch_xla's tpu.py (host bounds of v2 and v3),
 * a tpu-env of a v4-256 and of a v6e-8 (bounds, wrap), and the GKE device plugin (wrap).
 */
#include "topology.h"
#include "test.h"

struct row {
        const char *type, *size, *machine;
        uint32_t hosts;
};

static const struct row rows[] = {
        /* xpk */
        { "v4-8", "2x2x1", "ct4p-hightpu-4t", 1 },
        { "v4-16", "2x2x2", "ct4p-hightpu-4t", 2 },
        { "v4-32", "2x2x4", "ct4p-hightpu-4t", 4 },
        { "v4-64", "2x4x4", "ct4p-hightpu-4t", 8 },
        { "v4-128", "4x4x4", "ct4p-hightpu-4t", 16 },
        { "v4-256", "4x4x8", "ct4p-hightpu-4t", 32 },
        { "v4-512", "4x8x8", "ct4p-hightpu-4t", 64 },
        { "v4-1024", "8x8x8", "ct4p-hightpu-4t", 128 },
        { "v4-1536", "8x8x12", "ct4p-hightpu-4t", 192 },
        { "v4-2048", "8x8x16", "ct4p-hightpu-4t", 256 },
        { "v4-4096", "8x16x16", "ct4p-hightpu-4t", 512 },
        { "v5p-8", "2x2x1", "ct5p-hightpu-4t", 1 },
        { "v5p-16", "2x2x2", "ct5p-hightpu-4t", 2 },
        { "v5p-32", "2x2x4", "ct5p-hightpu-4t", 4 },
        { "v5p-64", "2x4x4", "ct5p-hightpu-4t", 8 },
        { "v5p-128", "4x4x4", "ct5p-hightpu-4t", 16 },
        { "v5p-256", "4x4x8", "ct5p-hightpu-4t", 32 },
        { "v5p-384", "4x4x12", "ct5p-hightpu-4t", 48 },
        { "v5p-512", "4x8x8", "ct5p-hightpu-4t", 64 },
        { "v5p-640", "4x4x20", "ct5p-hightpu-4t", 80 },
        { "v5p-768", "4x8x12", "ct5p-hightpu-4t", 96 },
        { "v5p-896", "4x4x28", "ct5p-hightpu-4t", 112 },
        { "v5p-1024", "8x8x8", "ct5p-hightpu-4t", 128 },
        { "v5p-1152", "4x12x12", "ct5p-hightpu-4t", 144 },
        { "v5p-1280", "4x8x20", "ct5p-hightpu-4t", 160 },
        { "v5p-1408", "4x4x44", "ct5p-hightpu-4t", 176 },
        { "v5p-1536", "8x8x12", "ct5p-hightpu-4t", 192 },
        { "v5p-1664", "4x4x52", "ct5p-hightpu-4t", 208 },
        { "v5p-1792", "4x8x28", "ct5p-hightpu-4t", 224 },
        { "v5p-1920", "4x12x20", "ct5p-hightpu-4t", 240 },
        { "v5p-2048", "8x8x16", "ct5p-hightpu-4t", 256 },
        { "v5p-2176", "4x4x68", "ct5p-hightpu-4t", 272 },
        { "v5p-2304", "8x12x12", "ct5p-hightpu-4t", 288 },
        { "v5p-2432", "4x4x76", "ct5p-hightpu-4t", 304 },
        { "v5p-2560", "8x8x20", "ct5p-hightpu-4t", 320 },
        { "v5p-2688", "4x12x28", "ct5p-hightpu-4t", 336 },
        { "v5p-2816", "4x8x44", "ct5p-hightpu-4t", 352 },
        { "v5p-2944", "4x4x92", "ct5p-hightpu-4t", 368 },
        { "v5p-3072", "8x12x16", "ct5p-hightpu-4t", 384 },
        { "v5p-3200", "4x20x20", "ct5p-hightpu-4t", 400 },
        { "v5p-3328", "4x8x52", "ct5p-hightpu-4t", 416 },
        { "v5p-3456", "12x12x12", "ct5p-hightpu-4t", 432 },
        { "v5p-3584", "8x8x28", "ct5p-hightpu-4t", 448 },
        { "v5p-3712", "4x4x116", "ct5p-hightpu-4t", 464 },
        { "v5p-3840", "8x12x20", "ct5p-hightpu-4t", 480 },
        { "v5p-3968", "4x4x124", "ct5p-hightpu-4t", 496 },
        { "v5p-4096", "8x16x16", "ct5p-hightpu-4t", 512 },
        { "v5p-4224", "4x12x44", "ct5p-hightpu-4t", 528 },
        { "v5p-4352", "4x8x68", "ct5p-hightpu-4t", 544 },
        { "v5p-4480", "4x20x28", "ct5p-hightpu-4t", 560 },
        { "v5p-4608", "12x12x16", "ct5p-hightpu-4t", 576 },
        { "v5p-4736", "4x4x148", "ct5p-hightpu-4t", 592 },
        { "v5p-4864", "4x8x76", "ct5p-hightpu-4t", 608 },
        { "v5p-4992", "4x12x52", "ct5p-hightpu-4t", 624 },
        { "v5p-5120", "8x16x20", "ct5p-hightpu-4t", 640 },
        { "v5p-5248", "4x4x164", "ct5p-hightpu-4t", 656 },
        { "v5p-5376", "8x12x28", "ct5p-hightpu-4t", 672 },
        { "v5p-5504", "4x4x172", "ct5p-hightpu-4t", 688 },
        { "v5p-5632", "8x8x44", "ct5p-hightpu-4t", 704 },
        { "v5p-5760", "12x12x20", "ct5p-hightpu-4t", 720 },
        { "v5p-5888", "4x8x92", "ct5p-hightpu-4t", 736 },
        { "v5p-6016", "4x4x188", "ct5p-hightpu-4t", 752 },
        { "v5p-6144", "12x16x16", "ct5p-hightpu-4t", 768 },
        { "v5p-6272", "4x28x28", "ct5p-hightpu-4t", 784 },
        { "v5p-6400", "8x20x20", "ct5p-hightpu-4t", 800 },
        { "v5p-6528", "4x12x68", "ct5p-hightpu-4t", 816 },
        { "v5p-6656", "8x8x52", "ct5p-hightpu-4t", 832 },
        { "v5p-6784", "4x4x212", "ct5p-hightpu-4t", 848 },
        { "v5p-6912", "12x12x24", "ct5p-hightpu-4t", 864 },
        { "v5p-7040", "4x20x44", "ct5p-hightpu-4t", 880 },
        { "v5p-7168", "8x16x28", "ct5p-hightpu-4t", 896 },
        { "v5p-7296", "4x12x76", "ct5p-hightpu-4t", 912 },
        { "v5p-7424", "4x8x116", "ct5p-hightpu-4t", 928 },
        { "v5p-7552", "4x4x236", "ct5p-hightpu-4t", 944 },
        { "v5p-7680", "12x16x20", "ct5p-hightpu-4t", 960 },
        { "v5p-7808", "4x4x244", "ct5p-hightpu-4t", 976 },
        { "v5p-7936", "4x8x124", "ct5p-hightpu-4t", 992 },
        { "v5p-8064", "12x12x28", "ct5p-hightpu-4t", 1008 },
        { "v5p-8192", "16x16x16", "ct5p-hightpu-4t", 1024 },
        { "v5p-8320", "4x20x52", "ct5p-hightpu-4t", 1040 },
        { "v5p-8448", "8x12x44", "ct5p-hightpu-4t", 1056 },
        { "v5p-8704", "8x8x68", "ct5p-hightpu-4t", 1088 },
        { "v5p-8832", "4x12x92", "ct5p-hightpu-4t", 1104 },
        { "v5p-8960", "8x20x28", "ct5p-hightpu-4t", 1120 },
        { "v5p-9216", "12x16x24", "ct5p-hightpu-4t", 1152 },
        { "v5p-9472", "4x8x148", "ct5p-hightpu-4t", 1184 },
        { "v5p-9600", "12x20x20", "ct5p-hightpu-4t", 1200 },
        { "v5p-9728", "8x8x76", "ct5p-hightpu-4t", 1216 },
        { "v5p-9856", "4x28x44", "ct5p-hightpu-4t", 1232 },
        { "v5p-9984", "8x12x52", "ct5p-hightpu-4t", 1248 },
        { "v5p-10240", "16x16x20", "ct5p-hightpu-4t", 1280 },
        { "v5p-10368", "12x12x36", "ct5p-hightpu-4t", 1296 },
        { "v5p-10496", "4x8x164", "ct5p-hightpu-4t", 1312 },
        { "v5p-10752", "12x16x28", "ct5p-hightpu-4t", 1344 },
        { "v5p-10880", "4x20x68", "ct5p-hightpu-4t", 1360 },
        { "v5p-11008", "4x8x172", "ct5p-hightpu-4t", 1376 },
        { "v5p-11136", "4x12x116", "ct5p-hightpu-4t", 1392 },
        { "v5p-11264", "8x16x44", "ct5p-hightpu-4t", 1408 },
        { "v5p-11520", "12x20x24", "ct5p-hightpu-4t", 1440 },
        { "v5p-11648", "4x28x52", "ct5p-hightpu-4t", 1456 },
        { "v5p-11776", "8x8x92", "ct5p-hightpu-4t", 1472 },
        { "v5p-11904", "4x12x124", "ct5p-hightpu-4t", 1488 },
        { "v5p-12032", "4x8x188", "ct5p-hightpu-4t", 1504 },
        { "v5p-12160", "4x20x76", "ct5p-hightpu-4t", 1520 },
        { "v5p-12288", "16x16x24", "ct5p-hightpu-4t", 1536 },
        { "v5p-13824", "12x24x24", "ct5p-hightpu-4t", 1728 },
        { "v5p-17920", "16x20x28", "ct5p-hightpu-4t", 2240 },
        { "v5litepod-8", "2x4", "ct5lp-hightpu-4t", 2 },
        { "v5litepod-16", "4x4", "ct5lp-hightpu-4t", 4 },
        { "v5litepod-32", "4x8", "ct5lp-hightpu-4t", 8 },
        { "v5litepod-64", "8x8", "ct5lp-hightpu-4t", 16 },
        { "v5litepod-128", "8x16", "ct5lp-hightpu-4t", 32 },
        { "v5litepod-256", "16x16", "ct5lp-hightpu-4t", 64 },
        { "v6e-1", "1x1", "ct6e-standard-1t", 1 },
        { "v6e-4", "2x2", "ct6e-standard-4t", 1 },
        { "v6e-8", "2x4", "ct6e-standard-4t", 2 },
        { "v6e-16", "4x4", "ct6e-standard-4t", 4 },
        { "v6e-32", "4x8", "ct6e-standard-4t", 8 },
        { "v6e-64", "8x8", "ct6e-standard-4t", 16 },
        { "v6e-128", "8x16", "ct6e-standard-4t", 32 },
        { "v6e-256", "16x16", "ct6e-standard-4t", 64 },
        { "tpu7x-2", "1x1x1", "tpu7x-standard-1t", 1 },
        { "tpu7x-3456", "12x12x12", "tpu7x-standard-4t", 432 },
        { "tpu7x-4608", "12x12x16", "tpu7x-standard-4t", 576 },
        { "tpu7x-5760", "12x12x20", "tpu7x-standard-4t", 720 },
        { "tpu7x-6912", "12x12x24", "tpu7x-standard-4t", 864 },
        { "tpu7x-8064", "12x12x28", "tpu7x-standard-4t", 1008 },
        { "tpu7x-10368", "12x12x36", "tpu7x-standard-4t", 1296 },
        { "tpu7x-6144", "12x16x16", "tpu7x-standard-4t", 768 },
        { "tpu7x-7680", "12x16x20", "tpu7x-standard-4t", 960 },
        { "tpu7x-9216", "12x16x24", "tpu7x-standard-4t", 1152 },
        { "tpu7x-10752", "12x16x28", "tpu7x-standard-4t", 1344 },
        { "tpu7x-9600", "12x20x20", "tpu7x-standard-4t", 1200 },
        { "tpu7x-11520", "12x20x24", "tpu7x-standard-4t", 1440 },
        { "tpu7x-13824", "12x24x24", "tpu7x-standard-4t", 1728 },
        { "tpu7x-8192", "16x16x16", "tpu7x-standard-4t", 1024 },
        { "tpu7x-10240", "16x16x20", "tpu7x-standard-4t", 1280 },
        { "tpu7x-12288", "16x16x24", "tpu7x-standard-4t", 1536 },
        { "tpu7x-16384", "16x16x32", "tpu7x-standard-4t", 2048 },
        { "tpu7x-17920", "16x20x28", "tpu7x-standard-4t", 2240 },
        { "tpu7x-18432", "16x24x24", "tpu7x-standard-4t", 2304 },
        { "tpu7x-8", "2x2x1", "tpu7x-standard-4t", 1 },
        { "tpu7x-16", "2x2x2", "tpu7x-standard-4t", 2 },
        { "tpu7x-32", "2x2x4", "tpu7x-standard-4t", 4 },
        { "tpu7x-64", "2x4x4", "tpu7x-standard-4t", 8 },
        { "tpu7x-11136", "4x12x116", "tpu7x-standard-4t", 1392 },
        { "tpu7x-1152", "4x12x12", "tpu7x-standard-4t", 144 },
        { "tpu7x-11904", "4x12x124", "tpu7x-standard-4t", 1488 },
        { "tpu7x-1920", "4x12x20", "tpu7x-standard-4t", 240 },
        { "tpu7x-2688", "4x12x28", "tpu7x-standard-4t", 336 },
        { "tpu7x-4224", "4x12x44", "tpu7x-standard-4t", 528 },
        { "tpu7x-4992", "4x12x52", "tpu7x-standard-4t", 624 },
        { "tpu7x-6528", "4x12x68", "tpu7x-standard-4t", 816 },
        { "tpu7x-7296", "4x12x76", "tpu7x-standard-4t", 912 },
        { "tpu7x-8832", "4x12x92", "tpu7x-standard-4t", 1104 },
        { "tpu7x-3200", "4x20x20", "tpu7x-standard-4t", 400 },
        { "tpu7x-4480", "4x20x28", "tpu7x-standard-4t", 560 },
        { "tpu7x-7040", "4x20x44", "tpu7x-standard-4t", 880 },
        { "tpu7x-8320", "4x20x52", "tpu7x-standard-4t", 1040 },
        { "tpu7x-10880", "4x20x68", "tpu7x-standard-4t", 1360 },
        { "tpu7x-12160", "4x20x76", "tpu7x-standard-4t", 1520 },
        { "tpu7x-6272", "4x28x28", "tpu7x-standard-4t", 784 },
        { "tpu7x-9856", "4x28x44", "tpu7x-standard-4t", 1232 },
        { "tpu7x-11648", "4x28x52", "tpu7x-standard-4t", 1456 },
        { "tpu7x-3712", "4x4x116", "tpu7x-standard-4t", 464 },
        { "tpu7x-384", "4x4x12", "tpu7x-standard-4t", 48 },
        { "tpu7x-3968", "4x4x124", "tpu7x-standard-4t", 496 },
        { "tpu7x-4736", "4x4x148", "tpu7x-standard-4t", 592 },
        { "tpu7x-5248", "4x4x164", "tpu7x-standard-4t", 656 },
        { "tpu7x-5504", "4x4x172", "tpu7x-standard-4t", 688 },
        { "tpu7x-6016", "4x4x188", "tpu7x-standard-4t", 752 },
        { "tpu7x-640", "4x4x20", "tpu7x-standard-4t", 80 },
        { "tpu7x-6784", "4x4x212", "tpu7x-standard-4t", 848 },
        { "tpu7x-7552", "4x4x236", "tpu7x-standard-4t", 944 },
        { "tpu7x-7808", "4x4x244", "tpu7x-standard-4t", 976 },
        { "tpu7x-896", "4x4x28", "tpu7x-standard-4t", 112 },
        { "tpu7x-128", "4x4x4", "tpu7x-standard-4t", 16 },
        { "tpu7x-1408", "4x4x44", "tpu7x-standard-4t", 176 },
        { "tpu7x-1664", "4x4x52", "tpu7x-standard-4t", 208 },
        { "tpu7x-2176", "4x4x68", "tpu7x-standard-4t", 272 },
        { "tpu7x-2432", "4x4x76", "tpu7x-standard-4t", 304 },
        { "tpu7x-256", "4x4x8", "tpu7x-standard-4t", 32 },
        { "tpu7x-2944", "4x4x92", "tpu7x-standard-4t", 368 },
        { "tpu7x-7424", "4x8x116", "tpu7x-standard-4t", 928 },
        { "tpu7x-768", "4x8x12", "tpu7x-standard-4t", 96 },
        { "tpu7x-7936", "4x8x124", "tpu7x-standard-4t", 992 },
        { "tpu7x-9472", "4x8x148", "tpu7x-standard-4t", 1184 },
        { "tpu7x-10496", "4x8x164", "tpu7x-standard-4t", 1312 },
        { "tpu7x-11008", "4x8x172", "tpu7x-standard-4t", 1376 },
        { "tpu7x-12032", "4x8x188", "tpu7x-standard-4t", 1504 },
        { "tpu7x-1280", "4x8x20", "tpu7x-standard-4t", 160 },
        { "tpu7x-1792", "4x8x28", "tpu7x-standard-4t", 224 },
        { "tpu7x-2816", "4x8x44", "tpu7x-standard-4t", 352 },
        { "tpu7x-3328", "4x8x52", "tpu7x-standard-4t", 416 },
        { "tpu7x-4352", "4x8x68", "tpu7x-standard-4t", 544 },
        { "tpu7x-4864", "4x8x76", "tpu7x-standard-4t", 608 },
        { "tpu7x-512", "4x8x8", "tpu7x-standard-4t", 64 },
        { "tpu7x-5888", "4x8x92", "tpu7x-standard-4t", 736 },
        { "tpu7x-2304", "8x12x12", "tpu7x-standard-4t", 288 },
        { "tpu7x-3072", "8x12x16", "tpu7x-standard-4t", 384 },
        { "tpu7x-3840", "8x12x20", "tpu7x-standard-4t", 480 },
        { "tpu7x-5376", "8x12x28", "tpu7x-standard-4t", 672 },
        { "tpu7x-8448", "8x12x44", "tpu7x-standard-4t", 1056 },
        { "tpu7x-9984", "8x12x52", "tpu7x-standard-4t", 1248 },
        { "tpu7x-4096", "8x16x16", "tpu7x-standard-4t", 512 },
        { "tpu7x-5120", "8x16x20", "tpu7x-standard-4t", 640 },
        { "tpu7x-7168", "8x16x28", "tpu7x-standard-4t", 896 },
        { "tpu7x-11264", "8x16x44", "tpu7x-standard-4t", 1408 },
        { "tpu7x-6400", "8x20x20", "tpu7x-standard-4t", 800 },
        { "tpu7x-8960", "8x20x28", "tpu7x-standard-4t", 1120 },
        { "tpu7x-1536", "8x8x12", "tpu7x-standard-4t", 192 },
        { "tpu7x-2048", "8x8x16", "tpu7x-standard-4t", 256 },
        { "tpu7x-2560", "8x8x20", "tpu7x-standard-4t", 320 },
        { "tpu7x-3584", "8x8x28", "tpu7x-standard-4t", 448 },
        { "tpu7x-5632", "8x8x44", "tpu7x-standard-4t", 704 },
        { "tpu7x-6656", "8x8x52", "tpu7x-standard-4t", 832 },
        { "tpu7x-8704", "8x8x68", "tpu7x-standard-4t", 1088 },
        { "tpu7x-9728", "8x8x76", "tpu7x-standard-4t", 1216 },
        { "tpu7x-1024", "8x8x8", "tpu7x-standard-4t", 128 },
        { "tpu7x-11776", "8x8x92", "tpu7x-standard-4t", 1472 },
        /* one host of 8, of 1: axlearn, Cloud TPU's v5litepod-8 and v6e-8 */
        { "v5litepod-1", "1x1", "ct5lp-hightpu-1t", 1 },
        { "v5litepod-4", "2x2", "ct5lp-hightpu-4t", 1 },
        { "v5litepod-8", "2x4", "ct5lp-hightpu-8t", 1 },
        { "v6e-8", "2x4", "ct6e-standard-8t", 1 },
};

static void parse(const struct row *row, struct accelerator *a, uint32_t *chips) {
        enum generation of_machine;

        ASSERT_OK(accelerator_parse(row->type, a));
        ASSERT_OK(topology_machine(row->machine, &of_machine, chips));
        ASSERT_EQ(of_machine, a->generation);
        ASSERT_TRUE(startswith(row->type, generation_name(a->generation)));
}

static void test_every_type(void) {
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                char why[TOPOLOGY_WHY_MAX], text[SHAPE_TEXT_MAX];
                struct accelerator a;
                struct topology t;
                uint32_t chips;

                parse(&rows[i], &a, &chips);
                if (topology_of(&a, rows[i].size, chips, &t, why) < 0)
                        test_fail(__FILE__, __LINE__, "%s %s: %s", rows[i].type, rows[i].size, why);
                if (t.n_hosts != rows[i].hosts || t.chips != t.n_hosts * chips)
                        test_fail(__FILE__, __LINE__, "%s %s: %u hosts", rows[i].type, rows[i].size,
                                  t.n_hosts);
                ASSERT_EQ(shape_count(&t.box) * shape_count(&t.hosts), t.chips);
                ASSERT_STREQ(topology_size_text(a.generation, &t.size, text), rows[i].size);
        }
}

/* Where two dimensions leave no choice, the topology need not be said. */
static void test_usual_topology(void) {
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                char why[TOPOLOGY_WHY_MAX], text[SHAPE_TEXT_MAX];
                struct accelerator a;
                struct topology t;
                uint32_t chips;

                parse(&rows[i], &a, &chips);
                if (strchr(strchr(rows[i].size, 'x') + 1, 'x')) {
                        ASSERT_EQ(topology_of(&a, NULL, chips, &t, why), -ENODATA);
                        continue;
                }
                ASSERT_OK(topology_of(&a, NULL, chips, &t, why));
                ASSERT_STREQ(topology_size_text(a.generation, &t.size, text), rows[i].size);
                n++;
        }
        ASSERT_TRUE(n > 15);
}

static void test_bounds(void) {
        static const struct {
                const char *type, *size;
                uint32_t chips_per_host;
                const char *box, *hosts, *wrap; /* wrap NULL: no source */
        } t[] = {
                /* torch_xla, _ACCELERATOR_TYPE_TO_HOST_BOUNDS */
                { "v2-8", NULL, 0, "2,2,1", "1,1,1", NULL },
                { "v2-32", NULL, 0, "2,2,1", "2,2,1", NULL },
                { "v2-128", NULL, 0, "2,2,1", "4,4,1", NULL },
                { "v2-256", NULL, 0, "2,2,1", "4,8,1", NULL },
                { "v2-512", NULL, 0, "2,2,1", "8,8,1", NULL },
                { "v3-8", NULL, 0, "2,2,1", "1,1,1", "false,false,false" },
                { "v3-32", NULL, 0, "2,2,1", "2,2,1", "false,false,false" },
                { "v3-64", NULL, 0, "2,2,1", "2,4,1", "false,false,false" },
                { "v3-128", NULL, 0, "2,2,1", "4,4,1", "false,false,false" },
                { "v3-256", NULL, 0, "2,2,1", "4,8,1", "false,false,false" },
                { "v3-512", NULL, 0, "2,2,1", "8,8,1", "false,false,false" },
                { "v3-1024", NULL, 0, "2,2,1", "8,16,1", "false,false,false" },
                { "v3-2048", NULL, 0, "2,2,1", "16,16,1", "false,false,false" },
                /* tpu-env of a v4-256 */
                { "v4-256", "4x4x8", 0, "2,2,1", "2,2,8", "true,true,true" },
                /* tpu-env of a v6e-8 of two hosts */
                { "v6e-8", "2x4", 4, "2,2,1", "1,2,1", "false,false,false" },
                { "v6e-8", NULL, 0, "2,4,1", "1,1,1", "false,false,false" },
                { "v6e-1", NULL, 0, "1,1,1", "1,1,1", "false,false,false" },
                /* the GKE device plugin */
                { "v4-32", "2x2x4", 0, "2,2,1", "1,1,4", "false,false,false" },
                { "v5p-128", "4x4x4", 0, "2,2,1", "2,2,4", "true,true,true" },
                { "tpu7x-2", "1x1x1", 1, "1,1,1", "1,1,1", "false,false,false" },
                { "tpu7x-64", "2x4x4", 0, "2,2,1", "1,2,4", "false,false,false" },
                { "v5litepod-256", "16x16", 0, "2,2,1", "8,8,1", "true,true,false" },
                { "v6e-128", "8x16", 0, "2,2,1", "4,8,1", "false,true,false" },
                { "v5e-16", "4x4", 4, "2,2,1", "2,2,1", "false,false,false" },
                { "v7x-128", "4x4x4", 4, "2,2,1", "2,2,4", "true,true,true" },
        };

        for (size_t i = 0; i < ELEMENTSOF(t); i++) {
                char why[TOPOLOGY_WHY_MAX], box[SHAPE_TEXT_MAX], hosts[SHAPE_TEXT_MAX],
                        wrap[TOPOLOGY_WRAP_MAX];
                struct accelerator a;
                struct topology top;

                ASSERT_OK(accelerator_parse(t[i].type, &a));
                ASSERT_OK(topology_of(&a, t[i].size, t[i].chips_per_host, &top, why));
                ASSERT_STREQ(shape_text(&top.box, box), t[i].box);
                ASSERT_STREQ(shape_text(&top.hosts, hosts), t[i].hosts);
                ASSERT_EQ(top.wrap_known, t[i].wrap != NULL);
                if (t[i].wrap)
                        ASSERT_STREQ(topology_wrap_text(&top, wrap), t[i].wrap);
        }
}

static void test_what_does_not_fit(void) {
        static const struct {
                const char *type, *size;
                uint32_t chips_per_host;
                const char *why;
        } t[] = {
                { "v6e-16", "4x8", 4, "4x8 has 32 chips, v6e-16 has 16" },
                { "v4-16", "4x4x1", 4, "4x4x1 has 16 chips, v4-16 has 8" },
                { "v6e-16", "2x2x4", 4, "v6e has topologies AxB, not 2x2x4" },
                { "v6e-16", "4x4", 8, "a host of a v6e slice of 16 chips has 4, not 8" },
                { "v6e-16", "4x4", 1, "a host of a v6e slice of 16 chips has 4, not 1" },
                { "v5p-8", "2x2x1", 8, "a host of a v5p slice of 4 chips has 4, not 8" },
                { "v4-8", "1x2x2", 4, "hosts of 4 chips cannot fill 1x2x2" },
                { "v6e-12", NULL, 4, "no slice of v6e has 12 chips" },
        };

        for (size_t i = 0; i < ELEMENTSOF(t); i++) {
                struct topology top = { .chips = 7 };
                char why[TOPOLOGY_WHY_MAX];
                struct accelerator a;

                ASSERT_OK(accelerator_parse(t[i].type, &a));
                ASSERT_EQ(topology_of(&a, t[i].size, t[i].chips_per_host, &top, why), -EDOM);
                ASSERT_STREQ(why, t[i].why);
                ASSERT_EQ(top.chips, 7);
        }
}

static void test_names(void) {
        static const struct {
                const char *type;
                int result;
        } t[] = {
                { "v6e-16", 0 },
                { "v5e-4", 0 },
                { "v7x-8", 0 },
                { "v6e", -EINVAL },
                { "v6e-", -EINVAL },
                { "", -EINVAL },
                { "v9z-8", -ENODATA },
                { "v6-8", -ENODATA },
                { "v4-7", -EDOM },
                { "v4-0", -EDOM },
                { "v6e-0", -EDOM },
                { "v6e-99999999", -EDOM },
                { "tpu7x-99999999999999999999", -EDOM },
        };
        static const char *const machines[] = { "",
                                                "ct6e-standard-",
                                                "ct6e-standard-2t",
                                                "ct6e-standard-4tx",
                                                "n2-standard-4",
                                                "ct4p-hightpu-1t",
                                                "ct5p-hightpu-8t",
                                                "tpu7x-standard-8t" };
        enum generation g;
        uint32_t chips;

        for (size_t i = 0; i < ELEMENTSOF(t); i++) {
                struct accelerator a;

                ASSERT_EQ(accelerator_parse(t[i].type, &a), t[i].result);
        }
        for (size_t i = 0; i < ELEMENTSOF(machines); i++)
                ASSERT_EQ(topology_machine(machines[i], &g, &chips), -ENODATA);
}

TEST_MAIN(test_every_type, test_usual_topology, test_bounds, test_what_does_not_fit, test_names)
