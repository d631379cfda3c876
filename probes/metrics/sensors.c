/* SPDX-License-Identifier: Apache-2.0 */
#include "sensors.h"

#include <fcntl.h>

#include "probe.h"

#define PACKAGES_CPUS 1024
#define INPUTS_MAX 16 /* of one hwmon device */

struct search {
        struct sensors_state *state;
        const struct host *host;
};

static void add(struct search *to, enum metric_id metric, const char *id, const char *name,
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
        add(userdata, METRIC_TEMPERATURE, entry, type, path);
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
                add(userdata, METRIC_TEMPERATURE, id, name, path);
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
        add(userdata, METRIC_ENERGY, entry, name, path);
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
                add(s, METRIC_THROTTLES, id, "", path);
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
