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
        const char *name; /* "hostd"; NULL: the file is given by --config, and stands for all of them */
        char passed[64];  /* the section that was warned about as a whole */
};

static void warn_at(struct config *c, const char *path, unsigned line, const char *text) {
        log_warning("%s:%u: %s", path, line, text);
        c->warnings++;
}

static void on_problem(void *userdata, unsigned line, const char *text) {
        struct file_state *f = userdata;

        warn_at(f->config, f->path, line, text);
}

/* Which configuration each section of any program is of. */
static const struct home {
        const char *section, *name;
} homes[] = {
        { "Authority", "authority" }, { "Container", "authority" }, { "Remote", "authority" },
        { "Collector", "collectord" }, { "Control", "collectord" }, { "Telemetry", "collectord" },
        { "RemoteWrite", "collectord" },
        { "Api", "hostd" }, { "Health", "hostd" }, { "Hostd", "hostd" },
        { "Libtpu", "hostd" }, { "Metadata", "hostd" }, { "Registry", "hostd" }, { "StackFiles", "hostd" },
        { "Uplink", "hostd" },
        { "Identity", "identity" }, { "Network", "identity" },
        { "Devices", "launchd" },
        { "Netcfg", "netcfg" },
        { "Path", "path" },
        { "Ctl", "tpuctl" },
};

static const char *home_of(const char *section) {
        for (size_t i = 0; i < ELEMENTSOF(homes); i++)
                if (streq(homes[i].section, section))
                        return homes[i].name;
        return NULL;
}

static bool has_section(const struct config *c, const char *section) {
        for (size_t i = 0; i < c->n_items; i++)
                if (streq(c->items[i].section, section))
                        return true;
        return false;
}

/* A key that is no item: another program's, which reads the same file, or a mistake. */
static void on_other(struct file_state *f, unsigned line, const char *section, const char *key) {
        const char *home = home_of(section);
        char text[512];

        if (has_section(f->config, section)) {
                if (f->config->shared && streq(f->config->shared, section))
                        return;
                (void) snprintf(text, sizeof(text), "unknown key '%s' in section [%s], ignored", key,
                                section);
        } else if ((home && (!f->name || streq(home, f->name))) || streq(f->passed, section))
                return;
        else {
                (void) snprintf(f->passed, sizeof(f->passed), "%s", section);
                if (home)
                        (void) snprintf(text, sizeof(text),
                                        "section [%s] belongs into %s.conf or %s.conf.d, ignored here",
                                        section, home, home);
                else
                        (void) snprintf(text, sizeof(text), "there is no section [%s], ignored", section);
        }
        warn_at(f->config, f->path, line, text);
}

static ssize_t find_item(const struct config *c, const char *section, const char *key) {
        for (size_t i = 0; i < c->n_items; i++)
                if (streq(c->items[i].section, section) &&
                    (streq(c->items[i].key, key) || streq(c->items[i].key, "*")))
                        return (ssize_t) i;
        return -ENOENT;
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

/* A password in a URL is refused, and is not shown either. */
static const char *without_password(const char *value, char buf[static CONFIG_LINE_MAX]) {
        const char *user = strstr(value, "://"), *host = user ? strrchr(user, '@') : NULL;

        if (!host)
                return value;
        (void) snprintf(buf, CONFIG_LINE_MAX, "%.*s****%s", (int) (user + 3 - value), value, host);
        return buf;
}

static void on_item(void *userdata, unsigned line, const char *section, const char *key, const char *value) {
        struct file_state *f = userdata;
        struct config *c = f->config;
        char why[96], text[768], shown[CONFIG_LINE_MAX];
        ssize_t i;

        i = find_item(c, section, key);
        if (i < 0) {
                on_other(f, line, section, key);
                return;
        }
        if (set_item(c, (size_t) i, key, value, why) < 0) {
                (void) snprintf(text, sizeof(text), "%s=%s: %s; kept '%s' (%s)", key,
                                without_password(value, shown), why, c->origins[i].value,
                                c->origins[i].where);
                warn_at(c, f->path, line, text);
                return;
        }
        (void) snprintf(c->origins[i].where, sizeof(c->origins[i].where), "%s:%u", f->path, line);
        (void) snprintf(c->origins[i].value, sizeof(c->origins[i].value), "%s", value);
}

static int read_file(struct config *c, const struct host *h, const char *path, const char *name) {
        const struct config_reader reader = {
                .entry = on_item,
                .problem = on_problem,
                .userdata = &(struct file_state) { .config = c, .path = path, .name = name },
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
        return read_file(c, &here, absolute, NULL);
}

/* --- What is there and not read ------------------------------------------------------------------------ */

static void warn_unread(struct config *c, const char *dir, const char *name, const char *why) {
        log_warning("%s/%s is not read: %s", dir, name, why);
        c->warnings++;
}

/* Whether a file's first line that is no comment opens a section. */
static bool begins_as_ini(const struct host *h, const char *path) {
        /* what is no regular file has no such line, and is not waited for */
        _cleanup_close_ int fd = host_open_file(h, path, O_RDONLY | O_NONBLOCK);
        char text[4096], *line, *rest = text;
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

        if (n < 0)
                return false;
        text[n] = '\0';
        while ((line = strsep(&rest, "\n"))) {
                line += strspn(line, " \t\r");
                if (*line && !strchr("#;", *line))
                        return *line == '[';
        }
        return false;
}

/* "hostd.conf.bak", "hostd.d", "tpu-hostd.conf" → "hostd"; NULL: it names none. */
static const char *meant_by(const char *entry) {
        const char *base = startswith(entry, "tpu-") ? entry + strlen("tpu-") : entry;

        for (size_t i = 0; i < ELEMENTSOF(homes); i++)
                if (startswith(base, homes[i].name) && strchr(".-_~", base[strlen(homes[i].name)]))
                        return homes[i].name; /* strchr() finds the end, too */
        return NULL;
}

struct site_look {
        struct config *config;
        const struct host *host;
        const char *name;
};

/* Of several programs one says it: whose configuration seems to be meant, else each that asks or serves. */
static bool says_it(const struct site_look *l, const char *meant) {
        return meant ? streq(meant, l->name)
                     : streq(l->name, "hostd") || streq(l->name, "collectord") || streq(l->name, "tpuctl");
}

static int look_at_site_file(const char *entry, void *userdata) {
        const struct site_look *l = userdata;
        const char *name = meant_by(entry);
        char path[sizeof(PATH_SITE) + 256], why[160];

        if (!says_it(l, name) || streq(entry, "machines.conf"))
                return 0;
        if (name && startswith(entry, name) &&
            (streq(entry + strlen(name), ".conf") || streq(entry + strlen(name), ".conf.d")))
                return 0;
        (void) snprintf(path, sizeof(path), PATH_SITE "/%.255s", entry);
        if (!strstr(entry, ".conf") && !endswith(entry, ".d") && !begins_as_ini(l->host, path))
                return 0;
        if (name)
                (void) snprintf(why, sizeof(why), "%s.conf and %s.conf.d/*.conf are", name, name);
        else
                (void) snprintf(why, sizeof(why),
                                "NAME.conf and NAME.conf.d/*.conf are, NAME being authority, collectord, "
                                "hostd, identity, launchd, netcfg, path or tpuctl");
        warn_unread(l->config, PATH_SITE, entry, why);
        return 0;
}

static int look_at_profile(const char *entry, void *userdata) {
        if (!endswith(entry, ".conf"))
                warn_unread(userdata, PATH_SITE "/profiles", entry, "its name does not end in .conf");
        return 0;
}

/* It is a help only: a folder that cannot be listed is passed over. */
static int look_at_site(struct config *c, const struct host *h, const char *name) {
        int r = host_list(h, PATH_SITE, look_at_site_file, &(struct site_look) { c, h, name });

        if (!errno_is_shortage(r) && streq(name, "netcfg"))
                r = host_list(h, PATH_SITE "/profiles", look_at_profile, c);
        return errno_is_shortage(r) ? r : 0;
}

/* --- Drop-ins ----------------------------------------------------------------------------------------- */

struct drop_in {
        char name[128], dir[96];
};

struct drop_ins {
        struct config *config;
        struct drop_in files[DROP_INS_MAX];
        size_t n;
        const char *dir; /* being listed */
};

static int add_drop_in(const char *name, void *userdata) {
        struct drop_ins *d = userdata;
        size_t i;

        if (!endswith(name, ".conf") || strlen(name) >= sizeof(d->files[0].name)) {
                warn_unread(d->config, d->dir, name,
                            endswith(name, ".conf") ? "its name is too long"
                                                    : "its name does not end in .conf");
                return 0;
        }
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

static const char *const dirs[] = { PATH_VENDOR, PATH_RUNTIME, PATH_SITE }; /* weakest first */

static int list_drop_ins(const struct host *h, const char *name, struct drop_ins *ret) {
        char dir[96];

        for (size_t i = 0; i < ELEMENTSOF(dirs); i++) {
                int r;

                (void) snprintf(dir, sizeof(dir), "%s/%s.conf.d", dirs[i], name);
                ret->dir = dir;
                r = host_list(h, dir, add_drop_in, ret);
                if (errno_is_shortage(r))
                        return r;
                if (r < 0 && r != -ENOENT) {
                        (void) log_warning_errno(r, "%s cannot be read, ignored: %m", dir);
                        ret->config->warnings++;
                }
        }
        qsort(ret->files, ret->n, sizeof(ret->files[0]), compare_drop_ins);
        return 0;
}

/* 1: it is there, read or warned about; 0: it is not; -errno of a shortage. */
static int read_or_warn(struct config *c, const struct host *h, const char *name, const char *path) {
        int r = read_file(c, h, path, name);

        if (r == -ENOENT || errno_is_shortage(r))
                return r == -ENOENT ? 0 : r;
        if (r < 0) {
                (void) log_warning_errno(r, "%s cannot be read, ignored: %m", path);
                c->warnings++;
        }
        return 1;
}

static int read_standard_files(struct config *c, const struct host *h, const char *name) {
        _cleanup_free_ struct drop_ins *d = calloc(1, sizeof(*d));
        char path[256];
        int r = 0;

        if (!d)
                return -ENOMEM;
        d->config = c;
        for (size_t i = ELEMENTSOF(dirs); r == 0 && i-- > 0;) {
                (void) snprintf(path, sizeof(path), "%s/%s.conf", dirs[i], name);
                r = read_or_warn(c, h, name, path);
        }
        r = r < 0 ? r : list_drop_ins(h, name, d);
        for (size_t i = 0; r >= 0 && i < d->n; i++) {
                (void) snprintf(path, sizeof(path), "%s/%s", d->files[i].dir, d->files[i].name);
                r = read_or_warn(c, h, name, path);
        }
        return r < 0 ? r : look_at_site(c, h, name);
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
