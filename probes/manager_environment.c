/* SPDX-License-Identifier: Apache-2.0 */
#include "manager_environment.h"

#include <dlfcn.h>
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

/*
 * libsystemd and what it needs in turn are two thirds of what it costs to start a worker, and one probe in one run in
 * fifty asks the manager: it is loaded by that one.
 */
struct bus_library {
        void *handle;
        __typeof__(&sd_bus_open_system) open_system;
        __typeof__(&sd_bus_set_method_call_timeout) set_timeout;
        __typeof__(&sd_bus_get_property_strv) get_strv;
        __typeof__(&sd_bus_flush_close_unref) close_unref;
};

/* A data pointer is no function pointer to ISO C; POSIX says that what dlsym(3) finds is both. */
#define FIND(library, member, name) (*(void **) &(library)->member = dlsym((library)->handle, #name))

static int load(struct bus_library *l) {
        l->handle = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
        if (!l->handle)
                return -ELIBACC;
        if (!FIND(l, open_system, sd_bus_open_system) || !FIND(l, set_timeout, sd_bus_set_method_call_timeout) ||
            !FIND(l, get_strv, sd_bus_get_property_strv) || !FIND(l, close_unref, sd_bus_flush_close_unref))
                return -ELIBBAD;
        return 0;
}

static int ask_manager(const struct bus_library *l, char ***ret) {
        sd_bus *bus = NULL;
        int r = l->open_system(&bus);

        if (r < 0)
                return r;
        (void) l->set_timeout(bus, ANSWER_TIMEOUT); /* else its own default of 25 s */
        r = l->get_strv(bus, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                        "org.freedesktop.systemd1.Manager", "Environment", NULL, ret);
        (void) l->close_unref(bus);
        return r;
}

int manager_environment_visit(const struct host *h, void (*visit)(const char *assignment, void *userdata),
                              void *userdata) {
        struct bus_library library = { 0 };
        struct host_stat st;
        char **list = NULL;
        int r;

        if (!h->real_root)
                return from_file(h, visit, userdata);
        if (host_stat(h, "/run/systemd/system", &st) < 0)
                return -ENOENT; /* sd_booted(3)'s test */
        r = load(&library);
        if (r >= 0)
                r = ask_manager(&library, &list);
        if (library.handle)
                (void) dlclose(library.handle); /* it fails for a handle that is none only */
        if (r < 0)
                return r;
        for (char **p = list; *p; p++) {
                visit(*p, userdata);
                free(*p);
        }
        free(list);
        return 0;
}
