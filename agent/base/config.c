/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <ini.h>

#include "config.h"
#include "log.h"
#include "paths.h"

#define DROP_INS_MAX 128

/* --- One text, with line numbers ---------------------------------------------------------------------- */

/* inih calls the reader once a line, and the handler before it asks for the next: counting lines here
 * numbers the entries. */
struct text_state {
        const struct config_reader *reader;
        const char *at, *end;
        unsigned line;
};

static char *next_line(char *buf, int size, void *stream) {
        struct text_state *s = stream;
        const char *newline;
        size_t n;

        if (s->at == s->end)
                return NULL;
        newline = memchr(s->at, '\n', (size_t) (s->end - s->at));
        n = (size_t) ((newline ? newline + 1 : s->end) - s->at);
        s->line++;
        if (n > CONFIG_LINE_MAX || n >= (size_t) size) {
                s->reader->problem(s->reader->userdata, s->line,
                                   "line is too long (190 bytes at most), ignored");
                s->at += n;
                buf[0] = '\n';
                buf[1] = '\0';
                return buf;
        }
        memcpy(buf, s->at, n);
        buf[n] = '\0';
        s->at += n;
        return buf;
}

static int on_entry(void *userdata, const char *section, const char *key, const char *value) {
        struct text_state *s = userdata;

        s->reader->entry(s->reader->userdata, s->line, section, key, value ? value : "");
        return 1;
}

int config_read_text(const struct config_reader *r, const char *text, size_t len) {
        struct text_state s = { .reader = r, .at = text, .end = text + len };
        int bad;

        if (memchr(text, '\0', len)) {
                r->problem(r->userdata, 1, "holds a NUL byte, ignored");
                return -EBADMSG;
        }
        bad = ini_parse_stream((ini_reader) next_line, &s, on_entry, &s);
        if (bad == -2)
                return -ENOMEM;
        /* on_entry() never fails: inih itself could not read this line; it went on with the next */
        if (bad > 0)
                r->problem(r->userdata, (unsigned) bad, "neither [section] nor key=value, ignored");
        return 0;
}

/* --- Items, files and origins ------------------------------------------------------------------------- */

struct file_state {
        struct config *config;
        const char *path;
        bool given; /* by --config */
};

static void warn_at(struct config *c, const char *path, unsigned line, const char *text) {
        log_warning("%s:%u: %s", path, line, text);
        c->warnings++;
}

static void on_problem(void *userdata, unsigned line, const char *text) {
        struct file_state *f = userdata;

        warn_at(f->config, f->path, line, text);
}

/* Every section of every program: --config FILE stands for all files of all of them. */
static const char *const every_section[] = {
        "Api",      "Authority", "Collector",  "Control",   "Ctl",      "Devices", "Health",  "Hook",
        "Hostd",    "Identity",  "Libtpu",     "Logs",      "Metadata", "Netcfg",  "Network", "Path",
        "Registry", "Remote",    "StackFiles", "Telemetry", "Uplink",   NULL };

static bool is_among(const char *const *sections, const char *section) {
        for (const char *const *s = sections; s && *s; s++)
                if (streq(*s, section))
                        return true;
        return false;
}

static bool is_foreign(const struct config *c, const char *section, bool given) {
        if (is_among(c->foreign, section))
                return true;
        for (size_t i = 0; i < c->n_items; i++)
                if (streq(c->items[i].section, section))
                        return false;
        return given && is_among(every_section, section);
}

static ssize_t find_item(const struct config *c, const char *section, const char *key) {
        for (size_t i = 0; i < c->n_items; i++)
                if (streq(c->items[i].section, section) &&
                    (streq(c->items[i].key, key) || streq(c->items[i].key, "*")))
                        return (ssize_t) i;
        return -ENOENT;
}

static const struct config_retired *find_retired(const struct config *c, const char *section,
                                                 const char *key, const char *value) {
        for (const struct config_retired *r = c->retired; r && r->section; r++)
                if (streq(r->section, section) && (streq(r->key, key) || streq(r->key, "*")) &&
                    (!r->value || streq(r->value, value)))
                        return r;
        return NULL;
}

static int set_item(struct config *c, size_t i, const char *key, const char *value, char why[static 96]) {
        const struct config_item *item = &c->items[i];
        char pair[CONFIG_LINE_MAX * 2];

        why[0] = '\0';
        if (!streq(item->key, "*"))
                return config_item_set(item, value, why);
        (void) snprintf(pair, sizeof(pair), "%s=%s", key, value);
        return item->parse(pair, item->dest, why);
}

static void on_item(void *userdata, unsigned line, const char *section, const char *key, const char *value) {
        struct file_state *f = userdata;
        struct config *c = f->config;
        const struct config_retired *retired = find_retired(c, section, key, value);
        char why[96], text[512];
        ssize_t i;

        if (retired) {
                log_warning("%s:%u: %s=%s in section [%s] is gone, ignored: %s", f->path, line, key,
                            retired->value ? retired->value : "", section, retired->instead);
                c->warnings++;
                return;
        }
        i = find_item(c, section, key);
        if (i < 0) {
                if (is_foreign(c, section, f->given))
                        return;
                (void) snprintf(text, sizeof(text), "unknown key '%s' in section [%s], ignored", key,
                                section);
                warn_at(c, f->path, line, text);
                return;
        }
        if (set_item(c, (size_t) i, key, value, why) < 0) {
                (void) snprintf(text, sizeof(text), "%s=%s: %s; kept '%s' (%s)", key, value, why,
                                c->origins[i].value, c->origins[i].where);
                warn_at(c, f->path, line, text);
                return;
        }
        (void) snprintf(c->origins[i].where, sizeof(c->origins[i].where), "%s:%u", f->path, line);
        (void) snprintf(c->origins[i].value, sizeof(c->origins[i].value), "%s", value);
}

static int read_file(struct config *c, const struct host *h, const char *path, bool given) {
        const struct config_reader reader = {
                .entry = on_item,
                .problem = on_problem,
                .userdata = &(struct file_state) { .config = c, .path = path, .given = given },
        };
        _cleanup_free_ char *text = malloc(CONFIG_FILE_MAX);
        size_t len;
        int r;

        if (!text)
                return -ENOMEM;
        r = host_read(h, path, text, CONFIG_FILE_MAX, &len);
        if (r < 0)
                return r;
        return config_read_text(&reader, text, len);
}

/* --config names a file of the caller's own machine, whatever --root says. */
static int read_given_file(struct config *c, const char *path) {
        _cleanup_host_ struct host here = HOST_NULL;
        _cleanup_free_ char *absolute = realpath(path, NULL);
        int r;

        if (!absolute)
                return -errno;
        r = host_open(NULL, &here);
        if (r < 0)
                return r;
        return read_file(c, &here, absolute, true);
}

/* --- Drop-ins ----------------------------------------------------------------------------------------- */

struct drop_in {
        char name[128], dir[96];
};

struct drop_ins {
        struct drop_in files[DROP_INS_MAX];
        size_t n;
        const char *dir; /* being listed */
};

static int add_drop_in(const char *name, void *userdata) {
        struct drop_ins *d = userdata;
        size_t len = strlen(name), i;

        if (len < 6 || len >= sizeof(d->files[0].name) || !streq(name + len - 5, ".conf"))
                return 0;
        for (i = 0; i < d->n && !streq(d->files[i].name, name); i++)
                ;
        if (i == DROP_INS_MAX)
                return -E2BIG;
        d->n = MAX(d->n, i + 1);
        (void) snprintf(d->files[i].name, sizeof(d->files[i].name), "%s", name);
        /* the stronger directory comes later */
        (void) snprintf(d->files[i].dir, sizeof(d->files[i].dir), "%s", d->dir);
        return 0;
}

static int compare_drop_ins(const void *a, const void *b) {
        return strcmp(((const struct drop_in *) a)->name, ((const struct drop_in *) b)->name);
}

static int list_drop_ins(struct config *c, const struct host *h, const char *name, struct drop_ins *ret) {
        static const char *const dirs[] = { PATH_VENDOR, PATH_RUNTIME, PATH_SITE }; /* weakest first */
        char dir[96];

        for (size_t i = 0; i < ELEMENTSOF(dirs); i++) {
                int r;

                (void) snprintf(dir, sizeof(dir), "%s/%s.conf.d", dirs[i], name);
                ret->dir = dir;
                r = host_list(h, dir, add_drop_in, ret);
                if (errno_is_shortage(r))
                        return r;
                if (r < 0 && r != -ENOENT && r != -ENOTDIR) {
                        (void) log_warning_errno(r, "%s cannot be read, ignored: %m", dir);
                        c->warnings++;
                }
        }
        qsort(ret->files, ret->n, sizeof(ret->files[0]), compare_drop_ins);
        return 0;
}

static int read_or_warn(struct config *c, const struct host *h, const char *path) {
        int r = read_file(c, h, path, false);

        if (errno_is_shortage(r))
                return r;
        if (r < 0 && r != -ENOENT) {
                (void) log_warning_errno(r, "%s cannot be read, ignored: %m", path);
                c->warnings++;
        }
        return 0;
}

static int read_standard_files(struct config *c, const struct host *h, const char *name) {
        _cleanup_free_ struct drop_ins *d = calloc(1, sizeof(*d));
        char path[256];
        int r;

        if (!d)
                return -ENOMEM;
        (void) snprintf(path, sizeof(path), "%s/%s.conf", PATH_VENDOR, name);
        r = read_or_warn(c, h, path);
        if (r < 0)
                return r;
        r = list_drop_ins(c, h, name, d);
        if (r < 0)
                return r;
        for (size_t i = 0; i < d->n; i++) {
                (void) snprintf(path, sizeof(path), "%s/%s", d->files[i].dir, d->files[i].name);
                r = read_or_warn(c, h, path);
                if (r < 0)
                        return r;
        }
        return 0;
}

int config_load(struct config *c, const struct host *h, const char *name, const char *file) {
        char why[96];

        c->warnings = 0;
        config_clear(c);
        c->origins = calloc(MAX(c->n_items, (size_t) 1), sizeof(*c->origins));
        if (!c->origins)
                return -ENOMEM;
        for (size_t i = 0; i < c->n_items; i++) {
                const char *fallback = c->items[i].fallback;

                (void) snprintf(c->origins[i].where, sizeof(c->origins[i].where), "default");
                if (!fallback)
                        continue;
                (void) snprintf(c->origins[i].value, sizeof(c->origins[i].value), "%s", fallback);
                if (config_item_set(&c->items[i], fallback, why) < 0)
                        return -EINVAL; /* our own table is wrong */
        }
        return file ? read_given_file(c, file) : read_standard_files(c, h, name);
}

void config_clear(struct config *c) {
        free(c->origins);
        c->origins = NULL;
}

int config_show(const struct config *c, FILE *out) {
        const char *section = "";

        for (size_t i = 0; i < c->n_items; i++) {
                if (!streq(section, c->items[i].section))
                        fprintf(out, "%s[%s]\n", i ? "\n" : "", c->items[i].section);
                section = c->items[i].section;
                fprintf(out, "# from %s\n%s = %s\n", c->origins[i].where, c->items[i].key,
                        c->origins[i].value);
        }
        return fflush(out) == EOF ? -EIO : 0;
}
