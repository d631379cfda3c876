/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "system_conf.h"

#define FILE_MAX (64 * 1024)
#define DROPINS_MAX 64

static const char *const directories[] = { "/etc/systemd", "/run/systemd",
                                           "/usr/lib/systemd" }; /* strongest first */

struct dropin {
        char name[64], path[160];
};

struct reading {
        const struct host *h;
        const char *key;
        void (*visit)(const char *value, const char *file, void *userdata);
        void *userdata;
        const char *directory; /* being listed */
        struct dropin dropins[DROPINS_MAX];
        size_t n;
};

static void take_line(struct reading *r, char *line, const char *file) {
        size_t n = strlen(r->key);

        line += strspn(line, " \t");
        if (strncmp(line, r->key, n) != 0)
                return;
        line += n;
        line += strspn(line, " \t");
        if (*line != '=')
                return;
        line += 1 + strspn(line + 1, " \t");
        for (char *end = line + strlen(line); end > line && strchr(" \t\r", end[-1]);)
                *--end = '\0';
        r->visit(line, file, r->userdata);
}

/* Comments begin with '#' or ';' and match no key; keys of other sections are none of [Manager]'s. */
static int read_file(struct reading *r, const char *path) {
        _cleanup_free_ char *text = malloc(FILE_MAX);
        bool manager = false;
        char *save = NULL;
        int e;

        if (!text)
                return -ENOMEM;
        e = host_read(r->h, path, text, FILE_MAX, NULL);
        if (e < 0)
                return e == -ENOENT ? 0 : e;
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                if (line[0] == '[')
                        manager = startswith(line, "[Manager]");
                else if (manager)
                        take_line(r, line, path);
        }
        return 0;
}

static int note_dropin(const char *name, void *userdata) {
        struct reading *r = userdata;
        size_t len = strlen(name);
        struct dropin *d;

        if (len < 5 || !streq(name + len - 5, ".conf") || len >= sizeof(d->name))
                return 0;
        for (size_t i = 0; i < r->n; i++)
                if (streq(r->dropins[i].name, name))
                        return 0; /* masked by a stronger directory's */
        if (r->n == DROPINS_MAX)
                return -E2BIG;
        d = &r->dropins[r->n++];
        memcpy(d->name, name, len + 1);
        (void) snprintf(d->path, sizeof(d->path), "%s/system.conf.d/%s", r->directory, name);
        return 0;
}

static int compare(const void *a, const void *b) {
        return strcmp(((const struct dropin *) a)->name, ((const struct dropin *) b)->name);
}

static int read_main(struct reading *r) {
        for (size_t i = 0; i < ELEMENTSOF(directories); i++) {
                char path[64];
                int e, fd;

                (void) snprintf(path, sizeof(path), "%s/system.conf", directories[i]);
                fd = host_open_file(r->h, path, O_RDONLY);
                if (fd == -ENOENT)
                        continue;
                (void) close_fd(fd);
                e = read_file(r, path); /* one of them counts: the strongest */
                return e;
        }
        return 0;
}

int system_conf_visit(const struct host *h, const char *key,
                      void (*visit)(const char *value, const char *file, void *userdata), void *userdata) {
        struct reading r = { .h = h, .key = key, .visit = visit, .userdata = userdata };
        int e;

        e = read_main(&r);
        for (size_t i = 0; e >= 0 && i < ELEMENTSOF(directories); i++) {
                char path[64];

                r.directory = directories[i];
                (void) snprintf(path, sizeof(path), "%s/system.conf.d", directories[i]);
                e = host_list(h, path, note_dropin, &r);
                if (e == -ENOENT)
                        e = 0;
        }
        qsort(r.dropins, r.n, sizeof(r.dropins[0]), compare);
        for (size_t i = 0; e >= 0 && i < r.n; i++)
                e = read_file(&r, r.dropins[i].path);
        return e;
}
