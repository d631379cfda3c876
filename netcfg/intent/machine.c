/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "log.h"
#include "machine.h"
#include "profile.h"

#define VENDOR 0x1ae0 /* Google: also its NVMe and gVNIC, whose devices no section names */
#define PCI_DEVICES "/sys/bus/pci/devices"

/* The file is read for one section; the others are passed over. */
struct reading {
        const char *path, *section;
        bool found;
        struct machine_chip chip;
        struct machine_type type;
};

static void on_problem(void *userdata, unsigned line, const char *text) {
        const struct reading *r = userdata;

        log_warning("%s:%u: %s", r->path, line, text);
}

/* Returns what is wrong, or NULL. */
static const char *take_chip_number(const char *value, uint32_t *dest) {
        char why[96];
        uint32_t n = 0;

        if (config_parse_u32(value, &n, why) < 0 || n == 0 || n > 1024)
                return "the value must be a number from 1 to 1024";
        *dest = n;
        return NULL;
}

static const char *take_machine_text(const char *value, char *dest, size_t size) {
        if (!value[0] || strlen(value) >= size)
                return "the value is empty or too long";
        (void) snprintf(dest, size, "%s", value);
        return NULL;
}

static const char *take_machine_key(struct reading *r, const char *key, const char *value) {
        if (streq(key, "Source")) {
                (void) take_machine_text(value, r->chip.source, sizeof(r->chip.source));
                return take_machine_text(value, r->type.source, sizeof(r->type.source));
        }
        if (streq(key, "Generation")) {
                (void) take_machine_text(value, r->chip.generation, sizeof(r->chip.generation));
                return take_machine_text(value, r->type.generation, sizeof(r->type.generation));
        }
        if (streq(key, "HbmGiB"))
                return take_chip_number(value, &r->chip.hbm_gib);
        if (streq(key, "Functions"))
                return take_chip_number(value, &r->chip.functions);
        if (streq(key, "Chips"))
                return take_chip_number(value, &r->type.chips);
        if (streq(key, "Nics"))
                return take_chip_number(value, &r->type.nics);
        return "unknown key";
}

static void on_entry(void *userdata, unsigned line, const char *section, const char *key,
                     const char *value) {
        struct reading *r = userdata;
        const char *wrong;

        if (!streq(section, r->section))
                return;
        r->found = true;
        wrong = take_machine_key(r, key, value);
        if (wrong)
                on_problem(r, line, wrong);
}

/* 0 with what the section says. -ENOENT: no such section, or one that does not say where it comes from;
 * -ENOPKG: no file. */
static int read_section(const struct host *h, struct reading *r) {
        const struct config_reader reader = { .entry = on_entry, .problem = on_problem, .userdata = r };
        _cleanup_free_ char *text = malloc(CONFIG_FILE_MAX);
        char path[128];
        size_t len = 0;
        int e;

        if (!text)
                return -ENOMEM;
        e = profile_read(h, "machines.conf", path, text, &len);
        r->path = path;
        if (e == -ENOENT)
                e = -ENOPKG;
        if (e == 0)
                e = config_read_text(&reader, text, len);
        if (e == 0 && r->found && (!r->type.source[0] || !r->type.generation[0])) {
                log_warning("%s: section [%s] is refused: it needs Generation= and Source=", path,
                            r->section);
                e = -ENOENT;
        }
        r->path = NULL;
        return e < 0 ? e : r->found ? 0 : -ENOENT;
}

int machine_chip(const struct host *h, uint16_t device, struct machine_chip *ret) {
        char section[32];
        struct reading r = { .section = section, .chip = { .functions = 1 } };
        int e;

        (void) snprintf(section, sizeof(section), "Chip 0x%04x", device);
        e = read_section(h, &r);
        if (e == 0)
                *ret = r.chip;
        return e;
}

int machine_type(const struct host *h, const char *name, struct machine_type *ret) {
        char section[48];
        struct reading r = { .section = section };
        int n = snprintf(section, sizeof(section), "Machine %s", name), e;

        if (n < 0 || (size_t) n >= sizeof(section))
                return -ENOENT;
        e = read_section(h, &r);
        if (e == 0 && r.type.chips == 0)
                e = -ENOENT;
        if (e == 0)
                *ret = r.type;
        return e;
}

/* --- The chips of this host --------------------------------------------------------------------------- */

struct looking {
        const struct host *host;
        uint16_t device; /* of the last chip: most hosts have one kind, whose section is then read once */
        char generation[MACHINE_GENERATION_MAX];
};

/* Returns -ENOENT to stop at a chip of another generation, or -errno of a shortage. */
static int look_at_chip(const char *name, void *userdata) {
        struct looking *l = userdata;
        struct machine_chip chip;
        uint64_t vendor = 0, device = 0;
        char path[128];
        int r;

        (void) snprintf(path, sizeof(path), PCI_DEVICES "/%.32s/vendor", name);
        r = host_read_u64(l->host, path, &vendor);
        if (r < 0 || vendor != VENDOR)
                return errno_is_shortage(r) ? r : 0;
        (void) snprintf(path, sizeof(path), PCI_DEVICES "/%.32s/device", name);
        r = host_read_u64(l->host, path, &device);
        if (r < 0 || device > UINT16_MAX || device == l->device)
                return errno_is_shortage(r) ? r : 0;
        r = machine_chip(l->host, (uint16_t) device, &chip);
        if (r < 0)
                return errno_is_shortage(r) ? r : 0;
        if (l->generation[0] && !streq(l->generation, chip.generation))
                return -ENOENT;
        l->device = (uint16_t) device;
        (void) snprintf(l->generation, sizeof(l->generation), "%s", chip.generation);
        return 0;
}

int machine_generation(const struct host *h, char ret[static MACHINE_GENERATION_MAX]) {
        struct looking l = { .host = h };
        int r = host_list(h, PCI_DEVICES, look_at_chip, &l);

        if (r < 0)
                return r;
        if (!l.generation[0])
                return -ENOENT;
        memcpy(ret, l.generation, sizeof(l.generation));
        return 0;
}

#define CLASS_STORAGE 0x01 /* pci.ids, device classes; of Google's: NVMe … */
#define CLASS_NETWORK 0x02 /* … and gVNIC */

/* 1 to stop at what may be a TPU. A device that does not say its class may be one. */
static int may_be_tpu(const char *name, void *userdata) {
        const struct host *h = userdata;
        uint64_t vendor = 0, class = 0;
        char path[128];
        int r;

        (void) snprintf(path, sizeof(path), PCI_DEVICES "/%.32s/vendor", name);
        r = host_read_u64(h, path, &vendor);
        if (r < 0 && r != -ENOENT)
                return r;
        if (vendor != VENDOR)
                return 0;
        (void) snprintf(path, sizeof(path), PCI_DEVICES "/%.32s/class", name);
        r = host_read_u64(h, path, &class);
        if (r < 0 && r != -ENOENT)
                return r;
        return class >> 16 != CLASS_STORAGE && class >> 16 != CLASS_NETWORK;
}

int machine_may_have_tpu(const struct host *h) {
        int r = host_list(h, PCI_DEVICES, may_be_tpu, (void *) (uintptr_t) h);

        return r == -ENOENT ? 0 : r; /* a machine without that bus */
}
