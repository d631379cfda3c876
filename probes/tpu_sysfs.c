/* SPDX-License-Identifier: Apache-2.0 */
#include "tpu_sysfs.h"

#define PCI_DEVICES "/sys/bus/pci/devices"
#define ACCEL_CLASS "/sys/class/accel"
#define VENDOR_GOOGLE 0x1ae0
#define CLASS_ACCELERATOR 0x1200 /* PCI: processing accelerator */

/* Same vendor, no TPU: NVMe, gVNIC, a test device (kubernetes-sigs/dra-driver-google-tpu, hardware.go). */
static const uint16_t not_tpu[] = { 0x001f, 0x0042, 0xabcd };

struct walk {
        const struct host *h;
        struct tpu_inventory *inventory;
};

static bool is_known_other(uint64_t device) {
        for (size_t i = 0; i < ELEMENTSOF(not_tpu); i++)
                if (not_tpu[i] == device)
                        return true;
        return false;
}

static int read_id(const struct host *h, const char *address, const char *file, uint64_t limit,
                   uint64_t *ret) {
        char path[128];
        int r;

        (void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", address, file);
        r = host_read_u64(h, path, ret);
        return r < 0 ? r : *ret > limit ? -ERANGE : 0;
}

static bool bound_to_vfio(const struct host *h, const char *address) {
        char path[128], driver[32];

        (void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver", address);
        return host_link_name(h, path, driver, sizeof(driver)) == 0 && streq(driver, "vfio-pci");
}

/* "0000:00:04.1" → length of "0000:00:04". */
static size_t slot_length(const char *address) {
        const char *dot = strrchr(address, '.');

        return dot ? (size_t) (dot - address) : strlen(address);
}

static bool same_slot(const char *a, const char *b) {
        size_t n = slot_length(a);

        return n == slot_length(b) && memcmp(a, b, n) == 0;
}

/* One slot: the functions of a chip that has several (machines.conf). */
static bool is_shared(const struct tpu_chip *c, const char *address) {
        return c->model.functions > 1 && same_slot(c->address, address);
}

/* Most hosts have chips of one kind: its section of machines.conf is then read once. */
static int find_model(struct walk *w, uint16_t device, struct machine_chip *ret) {
        const struct tpu_inventory *v = w->inventory;

        if (v->n == 0 || v->chips[v->n - 1].device != device)
                return machine_chip(w->h, device, ret);
        *ret = v->chips[v->n - 1].model;
        return 0;
}

static int add_function(struct walk *w, const char *address, uint16_t device, const struct machine_chip *m) {
        struct tpu_inventory *v = w->inventory;
        struct tpu_chip *last = v->n > 0 ? &v->chips[v->n - 1] : NULL;

        /* Addresses come sorted: the functions of a slot stand together. */
        if (!last || last->device != device || !is_shared(last, address)) {
                if (v->n == TPU_CHIPS_MAX)
                        return -E2BIG;
                last = &v->chips[v->n++];
                *last = (struct tpu_chip){ .device = device, .model = *m };
                (void) snprintf(last->address, sizeof(last->address), "%s", address);
        }
        last->functions++;
        last->nodes += bound_to_vfio(w->h, address);
        return 0;
}

static void note_first(char first[static PCI_ADDRESS_SIZE], unsigned *n, const char *address) {
        if ((*n)++ == 0)
                (void) snprintf(first, PCI_ADDRESS_SIZE, "%s", address);
}

static int visit_pci(const char *address, void *userdata) {
        struct walk *w = userdata;
        struct tpu_inventory *v = w->inventory;
        uint64_t vendor, device, class;
        struct machine_chip m;
        int r;

        if (strlen(address) >= PCI_ADDRESS_SIZE ||
            read_id(w->h, address, "vendor", UINT16_MAX, &vendor) < 0) {
                note_first(v->unreadable, &v->n_unreadable, address);
                return 0;
        }
        if (vendor != VENDOR_GOOGLE)
                return 0;
        if (read_id(w->h, address, "device", UINT16_MAX, &device) < 0) {
                note_first(v->unreadable, &v->n_unreadable, address);
                return 0;
        }
        if (is_known_other(device))
                return 0;
        r = find_model(w, (uint16_t) device, &m);
        if (r != -ENOENT)
                return r < 0 ? r : add_function(w, address, (uint16_t) device, &m);
        if (read_id(w->h, address, "class", 0xffffff, &class) < 0)
                note_first(v->unreadable, &v->n_unreadable, address);
        else if (class >> 8 == CLASS_ACCELERATOR) {
                if (v->n_strange == 0)
                        v->strange_device = (uint16_t) device;
                note_first(v->strange, &v->n_strange, address);
        }
        return 0;
}

/* "accel0" → "0000:00:04.0". */
static int accel_address(const struct host *h, const char *name, char ret[static PCI_ADDRESS_SIZE]) {
        static const char key[] = "PCI_SLOT_NAME=";
        char path[320], text[1024], *slot;
        size_t n;
        int r;

        (void) snprintf(path, sizeof(path), ACCEL_CLASS "/%s/device/uevent", name);
        r = host_read(h, path, text, sizeof(text), NULL);
        if (r < 0)
                return r;
        slot = strstr(text, key);
        if (!slot)
                return -ENODATA;
        slot += sizeof(key) - 1;
        n = strcspn(slot, "\n");
        if (n >= PCI_ADDRESS_SIZE)
                return -E2BIG;
        memcpy(ret, slot, n);
        ret[n] = '\0';
        return 0;
}

/* The chip whose function stands behind an accel node has one more node. Nodes of other vendors' devices
 * match no chip. */
static int visit_accel(const char *name, void *userdata) {
        struct walk *w = userdata;
        char slot[PCI_ADDRESS_SIZE];

        if (accel_address(w->h, name, slot) < 0)
                return 0;
        for (size_t i = 0; i < w->inventory->n; i++) {
                struct tpu_chip *c = &w->inventory->chips[i];

                if (c->nodes < c->functions && (streq(c->address, slot) || is_shared(c, slot)))
                        c->nodes++;
        }
        return 0;
}

int tpu_inventory_read(const struct host *h, struct tpu_inventory *ret) {
        struct tpu_inventory v = { 0 };
        struct walk w = { h, &v };
        int r = host_list(h, PCI_DEVICES, visit_pci, &w);

        if (r < 0)
                return r;
        r = host_list(h, ACCEL_CLASS, visit_accel, &w);
        if (r < 0 && r != -ENOENT) /* no such class: chips since v5e have no accel nodes */
                return r;
        *ret = v;
        return 0;
}

int tpu_are_there(const struct host *h) {
        struct tpu_inventory v;
        int r = tpu_inventory_read(h, &v);

        return r < 0 ? r : v.n > 0;
}

struct node_walk {
        const struct host *h;
        const struct tpu_inventory *inventory;
        int (*visit)(const char *node, void *userdata);
        void *userdata;
};

static bool is_chip(const struct node_walk *w, const char *address) {
        for (size_t i = 0; i < w->inventory->n; i++) {
                const struct tpu_chip *c = &w->inventory->chips[i];

                if (streq(c->address, address) || is_shared(c, address))
                        return true;
        }
        return false;
}

static int visit_vfio_node(const char *address, void *userdata) {
        struct node_walk *w = userdata;
        char path[128], group[12], node[TPU_NODE_MAX];

        if (!is_chip(w, address) || !bound_to_vfio(w->h, address))
                return 0;
        (void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/iommu_group", address);
        if (host_link_name(w->h, path, group, sizeof(group)) < 0)
                return 0;
        (void) snprintf(node, sizeof(node), "/dev/vfio/%s", group);
        return w->visit(node, w->userdata);
}

static int visit_accel_node(const char *name, void *userdata) {
        struct node_walk *w = userdata;
        char address[PCI_ADDRESS_SIZE], node[TPU_NODE_MAX];

        if (strlen(name) > 16 || accel_address(w->h, name, address) < 0 || !is_chip(w, address))
                return 0;
        (void) snprintf(node, sizeof(node), "/dev/%.16s", name);
        return w->visit(node, w->userdata);
}

int tpu_inventory_visit_nodes(const struct host *h, const struct tpu_inventory *v,
                              int (*visit)(const char *node, void *userdata), void *userdata) {
        struct node_walk w = { .h = h, .inventory = v, .visit = visit, .userdata = userdata };
        int r = host_list(h, PCI_DEVICES, visit_vfio_node, &w);

        if (r != 0)
                return r;
        r = host_list(h, ACCEL_CLASS, visit_accel_node, &w);
        return r == -ENOENT ? 0 : r;
}

int tpu_visit_nodes(const struct host *h, int (*visit)(const char *node, void *userdata), void *userdata) {
        struct tpu_inventory v;
        int r = tpu_inventory_read(h, &v);

        if (r < 0)
                return r == -ENOPKG ? 0 : r; /* which devices are chips is not known */
        return tpu_inventory_visit_nodes(h, &v, visit, userdata);
}

bool machine_of(const struct host *h, const struct probe_context *c, struct machine_type *ret) {
        if (!c->machine)
                return c->machine_type && machine_type(h, c->machine_type, ret) == 0;
        if (c->machine->chips == 0)
                return false;
        *ret = *c->machine;
        return true;
}
