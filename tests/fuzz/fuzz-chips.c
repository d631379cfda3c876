/* SPDX-License-Identifier: Apache-2.0 */
/* Any content of the files in sysfs that tell TPU chips, with any machines.conf. Input: vendor, device,
 * class, uevent and machines.conf, NUL between them; the second function has the vendor's and the device's
 * files in exchange. */
#include "fuzz-root.h"
#include "tpu_sysfs.h"

#define PCI "sys/bus/pci/devices"
#define ACCEL "sys/class/accel"
static const char *const folders[] = { "sys",
                                       "sys/bus",
                                       "sys/bus/pci",
                                       PCI,
                                       PCI "/0000:00:04.0",
                                       PCI "/0000:00:04.1",
                                       "sys/class",
                                       ACCEL,
                                       ACCEL "/accel0",
                                       ACCEL "/accel0/device",
                                       "usr",
                                       "usr/lib",
                                       "usr/lib/tpu-hostd",
                                       NULL };

static int check_node(const char *node, void *userdata) {
        (void) userdata;
        if (!startswith(node, "/dev/") || strlen(node) >= TPU_NODE_MAX)
                abort();
        return 0;
}

static void check_inventory(const struct host *h) {
        struct tpu_inventory v;

        if (tpu_inventory_read(h, &v) < 0)
                return;
        if (v.n > 2)
                abort();
        for (size_t i = 0; i < v.n; i++) {
                const struct tpu_chip *c = &v.chips[i];

                if (strlen(c->address) >= sizeof(c->address) || c->functions == 0 ||
                    c->nodes > c->functions ||
                    strlen(c->model.generation) >= sizeof(c->model.generation) || c->model.functions == 0)
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const files[][2] = {
                { PCI "/0000:00:04.0/vendor", PCI "/0000:00:04.1/device" },
                { PCI "/0000:00:04.0/device", PCI "/0000:00:04.1/vendor" },
                { PCI "/0000:00:04.0/class", PCI "/0000:00:04.1/class" },
                { ACCEL "/accel0/device/uevent", NULL },
                { "usr/lib/tpu-hostd/machines.conf", NULL },
        };
        _cleanup_host_ struct host h = HOST_NULL;
        char generation[MACHINE_GENERATION_MAX];
        struct machine_type type;

        fuzz_root_open(folders, &h);
        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                const uint8_t *part;
                size_t len = fuzz_part(&data, &size, &part);

                for (size_t k = 0; k < 2 && files[i][k]; k++)
                        fuzz_root_write(&h, files[i][k], part, len);
        }
        check_inventory(&h);
        if (tpu_visit_nodes(&h, check_node, NULL) > 0)
                abort();
        if (machine_generation(&h, generation) == 0 &&
            (!generation[0] || strlen(generation) >= sizeof(generation)))
                abort();
        if (machine_type(&h, "ct6e-standard-4t", &type) == 0 && (type.chips == 0 || !type.source[0]))
                abort();
        return 0;
}
