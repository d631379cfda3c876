/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contests over settings: what tpu-netcfg says of them, and who sets what is contested. That tpu-hostd alone
 * sees, by the BPF set "writers". It says it in a file of its own (netcfg/intent/contested.h), which
 * contested_load() of all programs reads. Whoever was seen stays the writer of that contest.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "bpf_part.h"
#include "checks_part.h"
#include "contested.h"
#include "io.h"
#include "log.h"
#include "paths.h"
#include "writers.h"

/* Settings are contested after two repairs: who set it before them counts, too. */
#define BEFORE (60 * USEC_PER_SEC)

struct contests_state {
        struct bus *bus;
        struct contested_list known; /* as it was reported */
        int error;                   /* of reading it, which was logged */
        int save_error;              /* of saying who writes it, which was logged */
};

/* --- Who sets it --------------------------------------------------------------------------------------- */

/* "net.ipv4.conf.eth1.rp_filter" is the file rp_filter of the folder eth1. */
static void split_sysctl(const char *key, char copy[static 64], struct writer_query *q) {
        char *name, *folder;

        (void) snprintf(copy, 64, "%s", key);
        name = strrchr(copy, '.');
        if (name)
                *name++ = '\0';
        folder = strrchr(copy, '.');
        q->name = name ? name : copy;
        q->folder = folder ? folder + 1 : copy;
}

static int index_of(const struct host *h, const char *nic) {
        char path[64], text[24];
        size_t len;

        (void) snprintf(path, sizeof(path), "/sys/class/net/%.*s/ifindex", 31, nic);
        return strchr(nic, '/') || host_read(h, path, text, sizeof(text), &len) < 0 ? 0 : atoi(text);
}

static bool writer_of(const struct host *h, const struct writers_figures *seen, const struct contested *c,
                      struct writer *ret) {
        struct writer_query q = { .since = c->since - MIN(c->since, (usec_t) BEFORE), .name = c->subject };
        char copy[64];

        if (streq(c->check, "sysctl")) {
                q.kind = WRITER_SYSCTL;
                split_sysctl(c->setting, copy, &q);
        } else if (startswith(c->check, "route."))
                q.kind = startswith(c->setting, "from ") || streq(c->check, "route.rules") ? WRITER_RULE
                                                                                           : WRITER_ROUTE;
        else {
                q.kind = streq(c->check, "nic.mtu") ? WRITER_LINK : WRITER_FEATURE;
                q.index = index_of(h, c->subject);
        }
        return writers_find(seen, &q, ret);
}

static bool is_alive(const struct host *h, int pid) {
        _cleanup_close_ int fd = -1;
        char path[32];

        (void) snprintf(path, sizeof(path), "/proc/%d", pid);
        fd = host_open_file(h, path, O_PATH);
        return fd >= 0;
}

/* A loop of a shell starts a new process each time: who goes on is the shell. */
static int lasting_pid(const struct host *h, const struct writer *w) {
        return !is_alive(h, w->pid) && w->parent > 1 && is_alive(h, w->parent) ? w->parent : w->pid;
}

/* Fills in who sets each of *l, of which *known are known already. seen: NULL, nothing is seen. why: what is
 * said where nobody was seen; empty: all is seen. */
static void name_writers(const struct host *h, const struct writers_figures *seen, const char *why,
                         const struct contested_list *known, struct contested_list *l) {
        for (size_t i = 0; i < l->n; i++) {
                struct contested *c = &l->items[i];
                const struct contested *k = contested_find(known, c);
                struct writer w;

                c->pid = 0;
                c->unit[0] = c->command[0] = '\0';
                if (k && k->pid > 0) {
                        c->pid = k->pid;
                        memcpy(c->unit, k->unit, sizeof(c->unit));
                        memcpy(c->command, k->command, sizeof(c->command));
                } else if (seen && writer_of(h, seen, c, &w)) {
                        c->pid = lasting_pid(h, &w);
                        finding_set(c->unit, "%s", contested_is_unit(w.group) ? w.group : "");
                        finding_set(c->command, "%s", w.command);
                }
                if (c->pid <= 0)
                        finding_set(c->command, "%s", why);
        }
}

static int save_contests(const struct host *h, const struct contested_list *l) {
        _cleanup_close_ int dir = host_open_file(h, PATH_TOLD, O_RDONLY | O_DIRECTORY);
        char text[CONTESTED_TEXT_MAX], boot_id[BOOT_ID_MAX];
        int r = dir < 0 ? dir : host_boot_id(h, boot_id);

        if (r >= 0 && fchmod(dir, 0755) < 0) /* systemd makes it 0700, and everybody may read it */
                r = -errno;
        if (r >= 0 && l->n == 0)
                return unlinkat(dir, CONTESTED_FILE, 0) < 0 && errno != ENOENT ? -errno : 0;
        if (r >= 0)
                r = contested_format(l, boot_id, text);
        if (r >= 0)
                r = durable_write(dir, CONTESTED_FILE, text, (size_t) r, 0644);
        return r >= 0 && fchmodat(dir, CONTESTED_FILE, 0644, 0) < 0 ? -errno : r; /* whatever UMask= says */
}

/* --- What is reported ---------------------------------------------------------------------------------- */

static void report_begun(struct contests_state *s, const struct contested *c) {
        struct finding f;

        finding_init(&f, c->check, c->subject);
        contested_words(s->bus->host, c, &f);
        (void) bus_emit(s->bus,
                        EVENT_OF(NETCFG_CONTESTED, .check = c->check, .subject = c->subject,
                                 .setting = c->setting, .wanted = c->ours, .found = c->theirs,
                                 .times = c->times, .pid = c->pid > 0 ? c->pid : EVENT_ABSENT,
                                 .unit = c->pid > 0 && c->unit[0] ? c->unit : NULL,
                                 .command = c->pid > 0 ? c->command : NULL, .reason = f.reason,
                                 .remedy = f.remedy),
                        NULL);
}

static void report_ended(struct contests_state *s, const struct contested *c) {
        usec_t now = host_now(s->bus->host);

        (void) bus_emit(s->bus,
                        EVENT_OF(NETCFG_UNCONTESTED, .check = c->check, .subject = c->subject,
                                 .setting = c->setting, .wanted = c->ours, .found = c->theirs,
                                 .times = c->times,
                                 .lasted_msec = (int64_t) ((now - MIN(now, c->since)) / USEC_PER_MSEC)),
                        NULL);
}

static void find_writers(struct contests_state *s, struct contested_list *l) {
        struct bpf_sets *sets = bpf_sets_of(s->bus);
        const char *why = sets ? bpf_sets_reason(sets, "writers") : "no BPF programs are loaded";
        const struct writers_figures *f = sets ? bpf_sets_figures(sets, "writers", sizeof(*f)) : NULL;

        name_writers(s->bus->host, f, why, &s->known, l);
}

/* tpuctl check and tpu-netcfg read it there. */
static void save_writers(struct contests_state *s, const struct contested_list *l) {
        int r;

        if (l->n == s->known.n && memcmp(l->items, s->known.items, l->n * sizeof(*l->items)) == 0)
                return;
        r = save_contests(s->bus->host, l);
        if (r < 0 && r != s->save_error)
                (void) log_warning_errno(r, "who sets what is contested cannot be saved: %m");
        s->save_error = r;
}

static void tick_contests(void *self) {
        struct contests_state *s = self;
        struct contested_list now;
        int r = contested_load_settings(s->bus->host, &now);

        if (r < 0 && r != s->error)
                (void) log_warning_errno(r, "which settings are contested cannot be read: %m");
        s->error = r;
        if (r < 0)
                return;
        find_writers(s, &now);
        save_writers(s, &now);
        for (size_t i = 0; i < s->known.n; i++)
                if (!contested_find(&now, &s->known.items[i]))
                        report_ended(s, &s->known.items[i]);
        for (size_t i = 0; i < now.n; i++)
                if (!contested_find(&s->known, &now.items[i]))
                        report_begun(s, &now.items[i]);
        s->known = now;
}

const struct part contests_part = {
        .name = "contests",
        .size = sizeof(struct contests_state),
        .tick = tick_contests,
};
