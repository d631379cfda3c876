/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <strings.h>
#include <systemd/sd-bus.h>

#include "host.h"
#include "host_stat.h"
#include "texts.h"
#include "words.h"

/*
 * The environment that systemd's manager gives to every service: files, kernel command line and systemctl
 * set-environment together, as the manager itself says over D-Bus (org.freedesktop.systemd1.Manager,
 * Environment). With a root other than "/": the lines of /systemd/environment there, else -ENODATA.
 */

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
 * libsystemd and what it needs in turn are two thirds of what it costs to start a worker, and one probe in
 * one run in fifty asks the manager: it is loaded by that one.
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

static int load_environment(struct bus_library *l) {
        l->handle = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
        if (!l->handle)
                return -ELIBACC;
        if (!FIND(l, open_system, sd_bus_open_system) ||
            !FIND(l, set_timeout, sd_bus_set_method_call_timeout) ||
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

/*
 * Calls visit with each KEY=VALUE. -ENOENT: there is no systemd; -errno when it does not answer, at most 1 s
 * later.
 */
static int manager_environment_visit(const struct host *h,
                                     void (*visit)(const char *assignment, void *userdata), void *userdata) {
        struct bus_library library = { 0 };
        struct host_stat st;
        char **list = NULL;
        int r;

        if (!h->real_root)
                return from_file(h, visit, userdata);
        if (host_stat(h, "/run/systemd/system", &st) < 0)
                return -ENOENT; /* sd_booted(3)'s test */
        r = load_environment(&library);
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

/*
 * Proxy variables that every run would inherit: gRPC obeys them, and a distributed start then hangs (JAX
 * warns of it at jax.distributed.initialize()). A proxy's address may hold a password: no value is ever
 * reported. And variables that every run would inherit and then leave the TPUs alone.
 */

#define ENVIRONMENT_MAX (64 * 1024)
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789"

struct seen {
        char names[128]; /* comma list */
        bool any;
        char platform[32]; /* a variable that keeps a run from the TPUs; empty: none */
};

/* "JAX_PLATFORMS=cpu", in quotes perhaps. */
static bool leads_from_tpus(const char *assignment) {
        static const char *const names[] = { "JAX_PLATFORMS=", "JAX_PLATFORM_NAME=", "PJRT_DEVICE=" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (startswith(assignment, names[i])) {
                        const char *value = assignment + strlen(names[i]);

                        return value[strspn(value, "\"' \t")] && !strcasestr(value, "tpu");
                }
        return false;
}

/* "https_proxy", "HTTP_PROXY", "all_proxy"; not no_proxy, which takes hosts out. */
static void look_at(const char *assignment, void *userdata) {
        struct seen *v = userdata;
        size_t n = strcspn(assignment, "=");
        const char *value = assignment + n + (assignment[n] == '=');

        if (leads_from_tpus(assignment))
                (void) snprintf(v->platform, sizeof(v->platform), "%.*s", (int) n, assignment);
        if (n < 6 || n > 32 || strspn(assignment, NAME_CHARACTERS) < n ||
            strncasecmp(assignment + n - 6, "_proxy", 6) != 0 ||
            (n == 8 && strncasecmp(assignment, "no", 2) == 0) || !value[0] || streq(value, "\"\""))
                return;
        v->any = true;
        text_append(v->names, sizeof(v->names), ", ", "%.*s", (int) n, assignment);
}

/* pam_env(8): KEY=VALUE lines, "export " before them allowed, '#' comments. */
static void check_file(const struct host *h, struct sink *s) {
        static const char path[] = "/etc/environment";
        _cleanup_free_ char *text = malloc(ENVIRONMENT_MAX);
        struct seen v = { .any = false };
        struct host_stat etc;
        char *save = NULL;
        int r = text ? host_read(h, path, text, ENVIRONMENT_MAX, NULL) : -ENOMEM;

        if (r == -ENOENT && host_stat(h, "/etc", &etc) == 0) {
                text[0] = '\0';
                r = 0;
        }
        if (r < 0) {
                probe_tell(s, WORDS_PROXY_FILE_UNREADABLE, path, strerror(-r), "%s", "");
                return;
        }
        for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
                l += strspn(l, " \t");
                l += startswith(l, "export ") ? 7 : 0;
                look_at(l, &v);
        }
        probe_tell(s, v.any ? WORDS_PROXY_IN_FILE : WORDS_PROXY_NONE, path, NULL, "%s",
                   v.any ? v.names : "none");
        if (v.platform[0])
                probe_tell(s, WORDS_PLATFORM_IN_FILE, path, v.platform, "%s", v.platform);
}

/* "http_proxy, https_proxy" as systemctl(1) takes them. */
static void take_out_commas(char *names) {
        char *to = names;

        for (const char *from = names; *from; from++)
                if (*from != ',')
                        *to++ = *from;
        *to = '\0';
}

static void check_manager(const struct host *h, struct sink *s) {
        struct seen v = { .any = false };
        int r = manager_environment_visit(h, look_at, &v);
        char words[sizeof(v.names)];

        memcpy(words, v.names, sizeof(words));
        take_out_commas(words);
        if (r == -ENOENT)
                probe_tell(s, WORDS_PROXY_NONE, "systemd", NULL, "no systemd here");
        else if (r < 0)
                probe_tell(s, WORDS_PROXY_MANAGER_SILENT, "systemd", strerror(-r), "%s", "");
        else
                probe_tell(s, v.any ? WORDS_PROXY_IN_MANAGER : WORDS_PROXY_NONE, "systemd", words, "%s",
                           v.any ? v.names : "none");
        if (v.platform[0])
                probe_tell(s, WORDS_PLATFORM_IN_MANAGER, "systemd", v.platform, "%s", v.platform);
}

int probe_proxy(const struct host *h, const struct probe_context *c, struct sink *s) {
        (void) c;
        check_file(h, s);
        check_manager(h, s);
        return 0;
}
