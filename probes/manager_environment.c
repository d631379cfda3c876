/* SPDX-License-Identifier: Apache-2.0 */
#include "manager_environment.h"

#include <systemd/sd-bus.h>

#include "host_stat.h"

#define ANSWER_TIMEOUT (1 * USEC_PER_SEC)
#define TEXT_MAX (64 * 1024)

static int from_file(const struct host *h, void (*visit)(const char *assignment, void *userdata),
                     void *userdata) {
        _cleanup_free_ char *text = malloc(TEXT_MAX);
        char *save = NULL;
        int r;

        if (!text)
                return -ENOMEM;
        r = host_read(h, "/systemd/environment", text, TEXT_MAX, NULL);
        if (r < 0)
                return r == -ENOENT ? -ENODATA : r;
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                visit(line, userdata);
        return 0;
}

int manager_environment_visit(const struct host *h, void (*visit)(const char *assignment, void *userdata),
                              void *userdata) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        _cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
        struct host_stat st;
        char **list = NULL;
        int r;

        if (!h->real_root)
                return from_file(h, visit, userdata);
        if (host_stat(h, "/run/systemd/system", &st) < 0)
                return -ENOENT; /* sd_booted(3)'s test */
        r = sd_bus_open_system(&bus);
        if (r < 0)
                return r;
        (void) sd_bus_set_method_call_timeout(bus, ANSWER_TIMEOUT); /* else its own default of 25 s */
        r = sd_bus_get_property_strv(bus, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                                     "org.freedesktop.systemd1.Manager", "Environment", &error, &list);
        if (r < 0)
                return r;
        for (char **p = list; *p; p++) {
                visit(*p, userdata);
                free(*p);
        }
        free(list);
        return 0;
}
