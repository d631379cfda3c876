/* SPDX-License-Identifier: Apache-2.0 */
#include "contested.h"

#include <dirent.h>
#include <fcntl.h>

#include "check_words.h"
#include "clock.h"
#include "paths.h"
#include "texts.h"
#include "utf8.h"

#define FILE_HEAD "tpu-contested 1"
#define FIELDS 10
#define NONE "-" /* who reads a file takes blanks at its end away */

/* --- The file ------------------------------------------------------------------------------------------ */

int contested_format(const struct contested_list *l, const char *boot_id,
                     char buf[static CONTESTED_TEXT_MAX]) {
        size_t used;
        int n = snprintf(buf, CONTESTED_TEXT_MAX, FILE_HEAD "\nboot %s\n", boot_id);

        for (size_t k = 0;; k++) {
                const struct contested *c = &l->items[k];

                if (n < 0 || n >= CONTESTED_TEXT_MAX)
                        return -ENOSPC;
                used = (size_t) n;
                if (k == l->n)
                        return n;
                n = snprintf(buf + used, CONTESTED_TEXT_MAX - used,
                             "%s\t%s\t%s\t%s\t%s\t%u\t%" PRIu64 "\t%d\t%s\t%s\n", c->check, c->subject,
                             c->setting, c->ours, c->theirs, c->times, c->since, c->pid,
                             c->unit[0] ? c->unit : NONE, c->command[0] ? c->command : NONE);
                n = n < 0 ? n : n + (int) used;
        }
}

static bool parse_number(const char *text, uint64_t max, uint64_t *ret) {
        char *end;

        *ret = strtoull(text, &end, 10);
        return text[0] >= '0' && text[0] <= '9' && !*end && *ret <= max;
}

/* A person types it as root. */
bool contested_is_unit(const char *unit) {
        return unit[strspn(unit, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.@-")] ==
                       0 &&
               unit[0] != '-';
}

static int parse_line(char *line, struct contested *c) {
        char *fields[FIELDS] = { NULL };
        uint64_t times = 0, since = 0, pid = 0;
        size_t n = 0;

        for (char *field; n < FIELDS && (field = strsep(&line, "\t")); n++)
                fields[n] = field;
        if (n < FIELDS || line || !parse_number(fields[5], UINT32_MAX, &times) ||
            !parse_number(fields[6], INT64_MAX, &since) || !parse_number(fields[7], INT32_MAX, &pid) ||
            (!streq(fields[8], NONE) && !contested_is_unit(fields[8])))
                return -EBADMSG;
        *c = (struct contested) { .times = (unsigned) times, .since = since, .pid = (int) pid };
        finding_set(c->check, "%s", fields[0]);
        finding_set(c->subject, "%s", fields[1]);
        finding_set(c->setting, "%s", fields[2]);
        finding_set(c->ours, "%s", fields[3]);
        finding_set(c->theirs, "%s", fields[4]);
        finding_set(c->unit, "%s", streq(fields[8], NONE) ? "" : fields[8]);
        finding_set(c->command, "%s", streq(fields[9], NONE) ? "" : fields[9]);
        return 0;
}

int contested_parse(const char *text, size_t len, const char *boot_id, struct contested_list *ret) {
        static const char head[] = FILE_HEAD "\nboot ";
        struct contested_list read = { .n = 0 };
        char copy[CONTESTED_TEXT_MAX], *at = copy, *line;
        int r = 0;

        if (len >= sizeof(copy) || memchr(text, '\0', len))
                return -EBADMSG;
        memcpy(copy, text, len);
        copy[len] = '\0';
        (void) utf8_scrub(copy, len);
        if (!startswith(copy, head))
                return -EBADMSG;
        at += strlen(head);
        if (!streq(strsep(&at, "\n"), boot_id))
                at = NULL; /* another boot's: nothing is known */
        while (r == 0 && (line = strsep(&at, "\n")) && (line[0] || at)) /* the last one is empty */
                r = read.n < CONTESTED_MAX ? parse_line(line, &read.items[read.n++]) : -EBADMSG;
        if (r == 0)
                *ret = read;
        return r;
}

static int load_one(const struct host *h, const char *path, struct contested_list *ret) {
        char text[CONTESTED_TEXT_MAX], boot_id[BOOT_ID_MAX];
        size_t len;
        int r = host_read(h, path, text, sizeof(text), &len);

        ret->n = 0;
        if (r == -ENOENT)
                return 0;
        if (r == 0)
                r = host_boot_id(h, boot_id);
        return r < 0 ? r : contested_parse(text, len, boot_id, ret);
}

const struct contested *contested_find(const struct contested_list *l, const struct contested *c) {
        for (size_t i = 0; i < l->n; i++)
                if (l->items[i].since == c->since && streq(l->items[i].check, c->check) &&
                    streq(l->items[i].setting, c->setting) && streq(l->items[i].subject, c->subject))
                        return &l->items[i];
        return NULL;
}

int contested_load_settings(const struct host *h, struct contested_list *ret) {
        return load_one(h, PATH_NETCFG_RUNTIME "/" CONTESTED_FILE, ret);
}

int contested_load(const struct host *h, struct contested_list *ret) {
        struct contested_list writers = { .n = 0 };
        int r = contested_load_settings(h, ret);

        if (r < 0 || ret->n == 0 || load_one(h, PATH_TOLD "/" CONTESTED_FILE, &writers) < 0)
                return r;
        for (size_t i = 0; i < ret->n; i++) {
                const struct contested *w = contested_find(&writers, &ret->items[i]);

                if (!w)
                        continue;
                ret->items[i].pid = w->pid;
                memcpy(ret->items[i].unit, w->unit, sizeof(w->unit));
                memcpy(ret->items[i].command, w->command, sizeof(w->command));
        }
        return 0;
}

/* --- Who may it be? ------------------------------------------------------------------------------------ */

/* sysctl.d(5): of one name the strongest folder's file alone counts, and of all files the last by name. */
static const char *const sysctl_folders[] = { "/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d",
                                              "/usr/lib/sysctl.d", "/lib/sysctl.d" };
#define SYSCTL_CONF "/etc/sysctl.conf"
#define SYSCTL_CONF_NAME "99-sysctl.conf" /* by a symlink of that name */

struct search {
        const struct host *host;
        size_t folder;   /* that is looked at */
        const char *key; /* as sysctl.d(5) has it, with dots */
        char file[128], name[128];
        unsigned line; /* 0: none */
};

/* The last line that names the key: it is the one that counts. name: by which the file has its place. */
static void search_file(struct search *s, const char *path, const char *name) {
        _cleanup_fclose_ FILE *f = NULL;
        char line[512], key[sizeof(line)];

        if ((s->line > 0 && strcmp(name, s->name) < 0) || host_open_stream(s->host, path, &f) < 0)
                return;
        for (unsigned n = 1; n < 10000 && fgets(line, sizeof(line), f); n++) {
                if (sscanf(line, " %511[^= \t\n]", key) != 1)
                        continue;
                for (char *p = key; *p; p++)
                        *p = *p == '/' ? '.' : *p;
                if (!streq(key[0] == '-' ? key + 1 : key, s->key))
                        continue;
                s->line = n;
                (void) snprintf(s->file, sizeof(s->file), "%s", path);
                (void) snprintf(s->name, sizeof(s->name), "%s", name);
        }
}

static bool has_file(const struct host *h, const char *folder, const char *name) {
        _cleanup_close_ int fd = -1;
        char path[128];

        (void) snprintf(path, sizeof(path), "%s/%s", folder, name);
        fd = host_open_file(h, path, O_PATH);
        return fd >= 0;
}

static int visit_sysctl_file(const char *name, void *userdata) {
        struct search *s = userdata;
        char path[128], target[64];

        /* what a shell would take apart is not put into a remedy, and ours is not theirs */
        if (!endswith(name, ".conf") || strpbrk(name, " '\"\\$`;&|<>()*?") ||
            strstr(name, "tpu-hostd"))
                return 0;
        for (size_t i = 0; i < s->folder; i++)
                if (has_file(s->host, sysctl_folders[i], name))
                        return 0;
        if (snprintf(path, sizeof(path), "%s/%s", sysctl_folders[s->folder], name) >= (int) sizeof(path) ||
            (host_link_name(s->host, path, target, sizeof(target)) == 0 && streq(target, "sysctl.conf")))
                return 0; /* sed(1) would put a file in place of the symlink */
        search_file(s, path, name);
        return 0;
}

static void search_sysctls(struct search *s) {
        for (s->folder = 0; s->folder < ELEMENTSOF(sysctl_folders); s->folder++)
                (void) host_list(s->host, sysctl_folders[s->folder], visit_sysctl_file, s);
        search_file(s, SYSCTL_CONF, SYSCTL_CONF_NAME);
}

/* What runs here and is known to set such settings. */
static const char *known_candidates(const struct host *h, char buf[static 128]) {
        static const struct {
                const char *name, *path;
        } known[] = { { "NetworkManager", "/run/NetworkManager" },
                      { "systemd-networkd", "/run/systemd/netif/state" },
                      { "google-guest-agent", "/usr/bin/google_guest_agent" },
                      { "tuned", "/run/tuned" } };

        buf[0] = '\0';
        for (size_t i = 0; i < ELEMENTSOF(known); i++) {
                _cleanup_close_ int fd = host_open_file(h, known[i].path, O_PATH);

                if (fd >= 0)
                        text_append(buf, 128, ", ", "%s", known[i].name);
        }
        return buf;
}

/* --- Words --------------------------------------------------------------------------------------------- */

void contested_words(const struct host *h, const struct contested *c, struct finding *f) {
        usec_t ago = host_now(h) - MIN(c->since, host_now(h));
        char since[CLOCK_TEXT_MAX], times[24], pid[24], line[24], candidates[128];
        struct search s = { .host = h, .key = c->setting };

        (void) clock_text(host_now_real(h) - ago, since);
        (void) snprintf(times, sizeof(times), "%u", c->times);
        (void) snprintf(pid, sizeof(pid), "%d", c->pid);
        if (c->pid > 0) {
                bool service = endswith(c->unit, ".service") && !startswith(c->unit, "user@");

                check_say(f,
                          service                  ? WORDS_CONTESTED_UNIT :
                          has_file(h, "/proc", pid) ? WORDS_CONTESTED_PID :
                                                     WORDS_CONTESTED_ENDED,
                          since, times, c->theirs, pid, c->command,
                          service ? c->unit : c->unit[0] ? c->unit : "no unit");
                return;
        }
        if (streq(c->check, "sysctl"))
                search_sysctls(&s);
        (void) snprintf(line, sizeof(line), "%u", s.line);
        if (s.line > 0)
                check_say(f, WORDS_CONTESTED_FILE, since, times, c->theirs, line, s.file, c->command);
        else
                check_say(f, WORDS_CONTESTED, since, times, c->theirs, known_candidates(h, candidates),
                          c->command);
}

void contested_explain(const struct host *h, struct finding *f) {
        struct contested_list l;

        if (f->verdict == VERDICT_OK || f->verdict == VERDICT_UNKNOWN || contested_load(h, &l) < 0)
                return;
        for (size_t i = 0; i < l.n; i++)
                if (streq(l.items[i].check, f->check) && streq(l.items[i].subject, f->subject)) {
                        contested_words(h, &l.items[i], f);
                        return;
                }
}
