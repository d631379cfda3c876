/* SPDX-License-Identifier: Apache-2.0 */
#include "contest_writers.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "io.h"
#include "paths.h"

/* Settings are contested after two repairs: who set it before them counts, too. */
#define BEFORE (60 * USEC_PER_SEC)

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

void contest_writers(const struct host *h, const struct writers_figures *seen, const char *why,
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

int contest_writers_save(const struct host *h, const struct contested_list *l) {
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
