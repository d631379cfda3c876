/* SPDX-License-Identifier: Apache-2.0 */
#include "disks.h"

#include <fcntl.h>

/* Of /proc/diskstats, whatever the disk's own (Linux, Documentation/admin-guide/iostats.rst). */
#define SECTOR 512

/* /sys/block holds whole disks only. */
static bool is_whole(const struct host *h, const char *name) {
        static const char *const not_wanted[] = { "loop", "ram", "zram", "sr", "fd" };
        char path[DISK_NAME_MAX + 16];
        int fd;

        for (size_t i = 0; i < ELEMENTSOF(not_wanted); i++)
                if (startswith(name, not_wanted[i]))
                        return false;
        (void) snprintf(path, sizeof(path), "/sys/block/%s", name);
        for (char *p = path + strlen("/sys/block/"); *p; p++)
                if (*p == '/')
                        *p = '!'; /* as sysfs does: "cciss/c0d0" */
        fd = host_open_file(h, path, O_PATH);
        close_fd(fd);
        return fd >= 0;
}

/* NULL: no disk of ours. */
static const char *find_name(struct disks_state *d, const struct host *h, const char *name, size_t len) {
        struct disk_name *e;

        if (len >= DISK_NAME_MAX || name[0] == '.')
                return NULL;
        for (size_t i = 0; i < d->n; i++)
                if (word_is(name, len, d->names[i].name)) {
                        d->names[i].seen = true;
                        return d->names[i].whole ? d->names[i].name : NULL;
                }
        if (d->n == ELEMENTSOF(d->names))
                return NULL;
        e = &d->names[d->n++];
        memcpy(e->name, name, len);
        e->name[len] = 0;
        e->whole = is_whole(h, e->name);
        e->seen = true;
        return e->whole ? e->name : NULL;
}

struct transfers {
        int64_t done, merged, sectors, msec;
};

static bool take_transfers(const char **p, struct transfers *ret) {
        return take_number(p, &ret->done) && take_number(p, &ret->merged) && take_number(p, &ret->sectors) &&
               take_number(p, &ret->msec) && ret->sectors <= INT64_MAX / SECTOR;
}

static void put_transfers(const struct look *l, const char *disk, const char *direction,
                          const struct transfers *t) {
        put_int(l->sink, METRIC_DISK_IO, t->sectors * SECTOR, disk, direction, NULL);
        put_int(l->sink, METRIC_DISK_OPERATIONS, t->done, disk, direction, NULL);
        put_double(l->sink, METRIC_DISK_OPERATION_TIME, (double) t->msec / 1e3, disk, direction, NULL);
}

/* "   8       0 sda 11 22 33 44 55 66 77 88 0 99 …" */
static void take_disk(struct disks_state *d, const struct look *l, const char *line) {
        const char *p = line, *word, *disk;
        struct transfers reads, writes;
        int64_t number, busy_msec;
        size_t len;

        if (!take_number(&p, &number) || !take_number(&p, &number) || !(word = take_word(&p, &len)))
                return;
        disk = find_name(d, l->host, word, len);
        if (!disk || !take_transfers(&p, &reads) || !take_transfers(&p, &writes) ||
            !take_number(&p, &number) || !take_number(&p, &busy_msec))
                return;
        put_transfers(l, disk, "read", &reads);
        put_transfers(l, disk, "write", &writes);
        put_double(l->sink, METRIC_DISK_IO_TIME, (double) busy_msec / 1e3, disk, NULL, NULL);
}

void disks_look(struct disks_state *d, const struct look *l) {
        if (look_lines(l, FILE_DISKSTATS) < 0)
                return;
        for (size_t i = 0; i < d->n; i++)
                d->names[i].seen = false;
        for (char *line; (line = lines_next(l->lines));)
                take_disk(d, l, line);
        for (size_t i = d->n; i > 0; i--) /* what was unplugged leaves its room */
                if (!d->names[i - 1].seen)
                        d->names[i - 1] = d->names[--d->n];
}
