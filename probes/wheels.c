/* SPDX-License-Identifier: Apache-2.0 */
#include "wheels.h"

#include <ctype.h>

#define METADATA_MAX (512 * 1024) /* descriptions are part of it */

struct search {
        const struct host *h;
        const char *const *packages;
        struct wheels *out;
        const char *directory; /* being listed */
};

/* The version by METADATA, which counts; else the one in the folder's name. */
static void read_version(const struct search *s, const char *name, struct wheel *w) {
        static const char key[] = "\nVersion:";
        _cleanup_free_ char *text = malloc(METADATA_MAX);
        char path[512];
        const char *at, *dash = strchr(name, '-');

        (void) snprintf(w->version, sizeof(w->version), "%.*s",
                        (int) (strlen(name) - (size_t) (dash + 1 - name) - strlen(".dist-info")), dash + 1);
        if (!text ||
            snprintf(path, sizeof(path), "%s/%s/METADATA", s->directory, name) >= (int) sizeof(path) ||
            host_read(s->h, path, text, METADATA_MAX, NULL) < 0)
                return;
        at = strstr(text, key);
        if (!at)
                return;
        at += strlen(key);
        at += strspn(at, " \t");
        (void) snprintf(w->version, sizeof(w->version), "%.*s",
                        (int) MIN(strcspn(at, "\r\n"), sizeof(w->version)), at);
}

/* Names compare without case, and '-', '_' and '.' are one (PEP 503). */
static bool is_package(const char *name, size_t len, const char *package) {
        if (strlen(package) != len)
                return false;
        for (size_t i = 0; i < len; i++) {
                int c = tolower((unsigned char) name[i]);

                if (c == '-' || c == '.')
                        c = '_';
                if (c != package[i])
                        return false;
        }
        return true;
}

static int visit_entry(const char *name, void *userdata) {
        struct search *s = userdata;
        size_t len = strlen(name), tail = strlen(".dist-info");
        const char *dash = strchr(name, '-');

        if (len <= tail || !streq(name + len - tail, ".dist-info") || !dash || dash + 1 >= name + len - tail)
                return 0;
        for (const char *const *p = s->packages; *p; p++) {
                struct wheel *w;

                if (!is_package(name, (size_t) (dash - name), *p))
                        continue;
                if (s->out->n == WHEELS_MAX) {
                        s->out->more = true;
                        return 0;
                }
                w = &s->out->items[s->out->n++];
                *w = (struct wheel){ .package = *p };
                (void) snprintf(w->directory, sizeof(w->directory), "%s", s->directory);
                read_version(s, name, w);
        }
        return 0;
}

static void look_into(struct search *s, const char *directory) {
        int r;

        s->directory = directory;
        r = host_list(s->h, directory, visit_entry, s);
        if (r >= 0)
                s->out->directories++;
        else if (r == -E2BIG)
                s->out->more = true;
}

struct level {
        struct search *search;
        const char *parent;
};

/* lib → lib/python3.11/{site,dist}-packages */
static int visit_python(const char *name, void *userdata) {
        static const char *const kinds[] = { "site-packages", "dist-packages" };
        struct level *l = userdata;
        char path[256];

        if (!startswith(name, "python3"))
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                if (snprintf(path, sizeof(path), "%s/%s/%s", l->parent, name, kinds[i]) < (int) sizeof(path))
                        look_into(l->search, path);
        return 0;
}

static void look_into_lib(struct search *s, const char *lib) {
        struct level l = { s, lib };

        (void) host_list(s->h, lib, visit_python, &l); /* not there, or not ours to read: nothing to tell */
}

/* Homes: pip's --user directory and the usual names of virtual environments. /opt: /opt/NAME/lib. */
static int visit_owner(const char *name, void *userdata) {
        static const char *const below_home[] = { ".local/lib", "venv/lib", ".venv/lib", "env/lib" };
        struct level *l = userdata;
        bool home = !streq(l->parent, "/opt");
        char path[192];

        for (size_t i = 0; i < (home ? ELEMENTSOF(below_home) : 1); i++)
                if (snprintf(path, sizeof(path), "%s/%s/%s", l->parent, name, home ? below_home[i] : "lib") <
                    (int) sizeof(path))
                        look_into_lib(l->search, path);
        return 0;
}

void wheels_find(const struct host *h, const char *const packages[], struct wheels *ret) {
        struct search s = { .h = h, .packages = packages, .out = ret };
        struct level opt = { &s, "/opt" }, home = { &s, "/home" };

        *ret = (struct wheels){ 0 };
        look_into_lib(&s, "/usr/lib");
        look_into_lib(&s, "/usr/local/lib");
        look_into_lib(&s, "/root/.local/lib");
        (void) host_list(h, "/opt", visit_owner, &opt);
        (void) host_list(h, "/home", visit_owner, &home);
}
