/* SPDX-License-Identifier: Apache-2.0 */
#include "devices.h"

#include <fcntl.h>

/* --- Disks --------------------------------------------------------------------------------------------- */

/* Of /proc/diskstats, whatever the disk's own (Linux, Documentation/admin-guide/iostats.rst). */
#define SECTOR 512

/* /sys/block holds whole disks only. */
static bool is_whole(const struct host *h, const char *name) {
        static const char *const not_wanted[] = { "loop", "ram", "zram", "sr", "fd" };
        char path[DISK_NAME_MAX + 16];
        int fd;

        for (size_t i = 0; i < ELEMENTSOF(not_wanted); i++)
                if (startswith(name, not_wanted[i]))
                        return false;
        (void) snprintf(path, sizeof(path), "/sys/block/%s", name);
        for (char *p = path + strlen("/sys/block/"); *p; p++)
                if (*p == '/')
                        *p = '!'; /* as sysfs does: "cciss/c0d0" */
        fd = host_open_file(h, path, O_PATH);
        close_fd(fd);
        return fd >= 0;
}

/* NULL: no disk of ours. */
static const char *find_name(struct disks_state *d, const struct host *h, const char *name, size_t len) {
        struct disk_name *e;

        if (len >= DISK_NAME_MAX || name[0] == '.')
                return NULL;
        for (size_t i = 0; i < d->n; i++)
                if (word_is(name, len, d->names[i].name)) {
                        d->names[i].seen = true;
                        return d->names[i].whole ? d->names[i].name : NULL;
                }
        if (d->n == ELEMENTSOF(d->names))
                return NULL;
        e = &d->names[d->n++];
        memcpy(e->name, name, len);
        e->name[len] = 0;
        e->whole = is_whole(h, e->name);
        e->seen = true;
        return e->whole ? e->name : NULL;
}

struct transfers {
        int64_t done, merged, sectors, msec;
};

static bool take_transfers(const char **p, struct transfers *ret) {
        return take_number(p, &ret->done) && take_number(p, &ret->merged) && take_number(p, &ret->sectors) &&
               take_number(p, &ret->msec) && ret->sectors <= INT64_MAX / SECTOR;
}

static void put_transfers(const struct look *l, const char *disk, const char *direction,
                          const struct transfers *t) {
        put_int(l->sink, METRIC_DISK_IO, t->sectors * SECTOR, disk, direction, NULL);
        put_int(l->sink, METRIC_DISK_OPERATIONS, t->done, disk, direction, NULL);
        put_double(l->sink, METRIC_DISK_OPERATION_TIME, (double) t->msec / 1e3, disk, direction, NULL);
}

/* "   8       0 sda 11 22 33 44 55 66 77 88 0 99 …" */
static void take_disk(struct disks_state *d, const struct look *l, const char *line) {
        const char *p = line, *word, *disk;
        struct transfers reads, writes;
        int64_t number, busy_msec;
        size_t len;

        if (!take_number(&p, &number) || !take_number(&p, &number) || !(word = take_word(&p, &len)))
                return;
        disk = find_name(d, l->host, word, len);
        if (!disk || !take_transfers(&p, &reads) || !take_transfers(&p, &writes) ||
            !take_number(&p, &number) || !take_number(&p, &busy_msec))
                return;
        put_transfers(l, disk, "read", &reads);
        put_transfers(l, disk, "write", &writes);
        put_double(l->sink, METRIC_DISK_IO_TIME, (double) busy_msec / 1e3, disk, NULL, NULL);
}

void disks_look(struct disks_state *d, const struct look *l) {
        if (look_lines(l, FILE_DISKSTATS) < 0)
                return;
        for (size_t i = 0; i < d->n; i++)
                d->names[i].seen = false;
        for (char *line; (line = lines_next(l->lines));)
                take_disk(d, l, line);
        for (size_t i = d->n; i > 0; i--) /* what was unplugged leaves its room */
                if (!d->names[i - 1].seen)
                        d->names[i - 1] = d->names[--d->n];
}

/* --- Sensors ------------------------------------------------------------------------------------------- */

#define PACKAGES_CPUS 1024
#define INPUTS_MAX 16 /* of one hwmon device */

struct search {
        struct sensors_state *state;
        const struct host *host;
};

static void add_sensor(struct search *to, enum metric_id metric, const char *id, const char *name,
                const char *path) {
        struct sensors_state *s = to->state;
        struct sensor *x = &s->sensors[s->n];
        int fd;

        if (s->n == SENSORS_MAX || strlen(path) >= sizeof(x->path))
                return;
        fd = host_open_file(to->host, path, O_RDONLY);
        if (fd < 0)
                return; /* not there, or (energy) only for root */
        *x = (struct sensor){ .metric = metric, .file = { .fd = fd } };
        (void) snprintf(x->id, sizeof(x->id), "%s", id);
        (void) snprintf(x->name, sizeof(x->name), "%s", name);
        (void) snprintf(x->path, sizeof(x->path), "%s", path);
        s->n++;
}

static bool read_name(struct search *s, const char *path, char *buf, size_t size) {
        if (host_read(s->host, path, buf, size, NULL) < 0)
                return false;
        (void) make_printable(buf);
        return true;
}

static int on_zone(const char *entry, void *userdata) {
        char path[96], type[32];

        if (!startswith(entry, "thermal_zone") || strlen(entry) > 24)
                return 0;
        (void) snprintf(path, sizeof(path), "/sys/class/thermal/%s/type", entry);
        if (!read_name(userdata, path, type, sizeof(type)) || !streq(type, "x86_pkg_temp"))
                return 0;
        (void) snprintf(path, sizeof(path), "/sys/class/thermal/%s/temp", entry);
        add_sensor(userdata, METRIC_TEMPERATURE, entry, type, path);
        return 0;
}

static int on_hwmon(const char *entry, void *userdata) {
        char path[96], name[32], id[48];

        if (!startswith(entry, "hwmon") || strlen(entry) > 16)
                return 0;
        (void) snprintf(path, sizeof(path), "/sys/class/hwmon/%s/name", entry);
        if (!read_name(userdata, path, name, sizeof(name)) ||
            !(streq(name, "coretemp") || streq(name, "k10temp")))
                return 0;
        for (unsigned i = 1; i <= INPUTS_MAX; i++) {
                (void) snprintf(path, sizeof(path), "/sys/class/hwmon/%s/temp%u_input", entry, i);
                (void) snprintf(id, sizeof(id), "%s.temp%u", entry, i);
                add_sensor(userdata, METRIC_TEMPERATURE, id, name, path);
        }
        return 0;
}

static int on_powercap(const char *entry, void *userdata) {
        char path[96], name[32];

        if (!startswith(entry, "intel-rapl:") || strlen(entry) > 24)
                return 0;
        (void) snprintf(path, sizeof(path), "/sys/class/powercap/%s/name", entry);
        if (!read_name(userdata, path, name, sizeof(name)))
                return 0;
        (void) snprintf(path, sizeof(path), "/sys/class/powercap/%s/energy_uj", entry);
        add_sensor(userdata, METRIC_ENERGY, entry, name, path);
        return 0;
}

/* The first CPU of each package tells for all of it. */
static void find_throttles(struct search *s) {
        uint64_t seen = 0, package;
        char path[96], id[32];

        for (unsigned cpu = 0; cpu < PACKAGES_CPUS; cpu++) {
                (void) snprintf(path, sizeof(path),
                                "/sys/devices/system/cpu/cpu%u/topology/physical_package_id", cpu);
                if (host_read_u64(s->host, path, &package) < 0)
                        return;
                if (package >= 64 || (seen & (UINT64_C(1) << package)))
                        continue;
                seen |= UINT64_C(1) << package;
                (void) snprintf(path, sizeof(path),
                                "/sys/devices/system/cpu/cpu%u/thermal_throttle/package_throttle_count",
                                cpu);
                (void) snprintf(id, sizeof(id), "%u", (unsigned) package);
                add_sensor(s, METRIC_THROTTLES, id, "", path);
        }
}

void sensors_init(struct sensors_state *state, const struct host *h) {
        struct search s = { state, h };

        state->n = 0;
        /* A class that this machine does not have is no failure. */
        (void) host_list(h, "/sys/class/thermal", on_zone, &s);
        (void) host_list(h, "/sys/class/hwmon", on_hwmon, &s);
        (void) host_list(h, "/sys/class/powercap", on_powercap, &s);
        find_throttles(&s);
}

static void put(const struct sensor *x, int64_t value, const struct look *l) {
        if (x->metric == METRIC_TEMPERATURE)
                put_double(l->sink, x->metric, (double) value / 1e3, x->id, x->name, NULL);
        else if (x->metric == METRIC_ENERGY)
                put_double(l->sink, x->metric, (double) value / 1e6, x->id, x->name, "cpu");
        else
                put_int(l->sink, x->metric, value, x->id, NULL, NULL);
}

void sensors_look(struct sensors_state *s, const struct look *l) {
        for (size_t i = 0; i < s->n; i++) {
                struct sensor *x = &s->sensors[i];
                char text[64];
                const char *p = text;
                bool below = false;
                int64_t v;

                if (source_read(&x->file, l->host, x->path, text, sizeof(text)) < 0)
                        continue;
                if (*p == '-' && x->metric == METRIC_TEMPERATURE) {
                        below = true;
                        p++;
                }
                if (take_number(&p, &v) && (*p == 0 || *p == '\n'))
                        put(x, below ? -v : v, l);
        }
}

void sensors_close(struct sensors_state *s) {
        for (size_t i = 0; i < s->n; i++)
                source_close(&s->sensors[i].file);
        s->n = 0;
}
