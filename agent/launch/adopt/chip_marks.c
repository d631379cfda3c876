/* SPDX-License-Identifier: Apache-2.0 */
#include "chip_marks.h"
#include "fnv.h"

#define PCI_DEVICES   "/sys/bus/pci/devices"
#define VENDOR_GOOGLE 0x1ae0
#define CLASS_MASK    0xffff00
#define CLASS_CHIP    0x120000 /* processing accelerators */

struct finder {
        const struct host *h;
        struct chip_marks *out;
};

static bool reads(const struct host *h, const char *address, const char *file, uint64_t mask,
                  uint64_t wanted) {
        char path[128];
        uint64_t v;

        (void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", address, file);
        return host_read_u64(h, path, &v) == 0 && (v & mask) == wanted;
}

static int visit_device(const char *name, void *userdata) {
        struct finder *f = userdata;

        if (f->out->n == CHIP_MARKS_MAX)
                return 1;
        if (strlen(name) < sizeof(f->out->address[0]) &&
            reads(f->h, name, "vendor", UINT64_MAX, VENDOR_GOOGLE) &&
            reads(f->h, name, "class", CLASS_MASK, CLASS_CHIP))
                (void) snprintf(f->out->address[f->out->n++], sizeof(f->out->address[0]), "%s", name);
        return 0;
}

void chip_marks_find(const struct host *h, struct chip_marks *ret) {
        struct finder f = { .h = h, .out = ret };

        ret->n = 0;
        (void) host_list(h, PCI_DEVICES, visit_device, &f);
}

/* What cannot be read is part of the mark as such. */
static uint64_t add_number(uint64_t mark, const struct host *h, const char *address, const char *file) {
        char path[128];
        uint64_t v;

        (void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", address, file);
        if (host_read_u64(h, path, &v) < 0)
                v = UINT64_MAX;
        return fnv(mark, &v, sizeof(v));
}

uint64_t chip_marks_read(const struct host *h, const struct chip_marks *m) {
        uint64_t mark = FNV_BEGIN;

        for (size_t i = 0; i < m->n; i++) {
                mark = add_number(mark, h, m->address[i], "enable");
                mark = add_number(mark, h, m->address[i], "driver/module/refcnt");
        }
        return mark;
}
