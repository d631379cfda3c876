/* SPDX-License-Identifier: Apache-2.0 */
#include "system.h"

#include <assert.h>
#include <fcntl.h>

#include "texts.h"

/* --- CPUs ---------------------------------------------------------------------------------------------- */

#define CPUS_MAX 65536

/* The columns of the line "cpu" (proc(5)), USER_HZ each. The conventions know no softirq: the value is our
 * own, because it is where a host's network receives. guest is part of user. */
static const char *const modes[] = { "user",   "nice",      "system",  "idle",
                                     "iowait", "interrupt", "softirq", "steal" };
_Static_assert(ELEMENTSOF(modes) == CPU_MODES, "a column a mode");

static void look_at_time(struct system_state *c, const struct metrics_look *l) {
        double hz = (double) sysconf(_SC_CLK_TCK);
        char text[512]; /* the line is the file's first; the others are not wanted */
        const char *p = text;

        if (look_text(l, FILE_STAT, text, sizeof(text)) < 0 ||
            !startswith(text, "cpu "))
                return;
        p += strlen("cpu");
        for (size_t i = 0; i < CPU_MODES; i++) {
                int64_t ticks;

                if (!take_number(&p, &ticks))
                        return;
                c->held[i] = MAX(c->held[i], ticks);
                put_double(l->sink, METRIC_CPU_TIME, (double) c->held[i] / hz, modes[i], NULL, NULL);
        }
}

int64_t cpu_list_count(const char *text) {
        uint64_t first, last, n = 0;
        int r;

        while ((r = range_next(&text, &first, &last)) > 0) {
                if (last >= CPUS_MAX)
                        return 0;
                n += last - first + 1;
        }
        return r == 0 && n <= CPUS_MAX ? (int64_t) n : 0;
}

static void look_at_cpus(struct system_state *c, const struct metrics_look *l) {
        char text[1024];
        int64_t n;

        put_double(l->sink, METRIC_UPTIME, (double) l->now / (double) USEC_PER_SEC, NULL, NULL, NULL);
        look_at_time(c, l);
        if (look_text(l, FILE_CPUS, text, sizeof(text)) < 0)
                return;
        n = cpu_list_count(text);
        if (n > 0)
                put_int(l->sink, METRIC_CPU_COUNT, n, NULL, NULL, NULL);
}

/* --- Pressure ------------------------------------------------------------------------------------------ */

static const char *const names[] = { "cpu", "memory", "io", "irq" };
_Static_assert(ELEMENTSOF(names) == _PRESSURE_MAX, "a name a resource");

const char *pressure_resource_name(enum pressure_resource r) {
        return names[r];
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234" */
bool pressure_total(const char *text, const char *kind, int64_t *ret_usec) {
        static const char key[] = " total=";
        size_t n = strlen(kind);

        for (const char *line = text; line; line = strchr(line, '\n')) {
                const char *end, *total;

                line += *line == '\n';
                if (strncmp(line, kind, n) != 0 || line[n] != ' ')
                        continue;
                end = line + strcspn(line, "\n");
                total = strstr(line, key);
                if (!total || total >= end)
                        return false;
                total += strlen(key);
                return take_number(&total, ret_usec);
        }
        return false;
}

static void look_at_pressure(const struct metrics_look *l) {
        char text[512];
        int64_t usec;

        for (enum pressure_resource i = 0; i < _PRESSURE_MAX; i++) {
                /* A kernel without PSI, or with it switched off, says nothing. */
                if (look_text(l, (enum host_file) (FILE_PRESSURE_CPU + i), text, sizeof(text)) < 0)
                        continue;
                if (pressure_total(text, "some", &usec))
                        put_double(l->sink, METRIC_PRESSURE, (double) usec / 1e6, names[i], "some", NULL);
                /* The CPU's own "full" is always 0 for a whole host. */
                if (i != PRESSURE_CPU && pressure_total(text, "full", &usec))
                        put_double(l->sink, METRIC_PRESSURE, (double) usec / 1e6, names[i], "full", NULL);
        }
}

/* --- Memory and swap from /proc/meminfo, faults and kills from /proc/vmstat ---------------------------- */

#define NONE _METRIC_MAX
#define ROWS_MAX 16

/* A line of the file, or what is worked out of others (key ""). */
struct row {
        const char *key;
        enum metric_id id; /* NONE: it is no metric of its own */
        const char *state;
};

enum {
        TOTAL, AVAILABLE, FREE, BUFFERS, CACHED, USED, RECLAIMABLE, UNRECLAIMABLE, DIRTY, WRITEBACK,
        SWAP, SWAP_FREE, SWAP_USED,
};
static const struct row sizes[] = {
        [TOTAL] = { "MemTotal:", METRIC_MEMORY_LIMIT, NULL },
        [AVAILABLE] = { "MemAvailable:", METRIC_MEMORY_AVAILABLE, NULL },
        [FREE] = { "MemFree:", METRIC_MEMORY_USAGE, "free" },
        [BUFFERS] = { "Buffers:", METRIC_MEMORY_USAGE, "buffers" },
        [CACHED] = { "Cached:", METRIC_MEMORY_USAGE, "cached" },
        [USED] = { "", METRIC_MEMORY_USAGE, "used" },
        [RECLAIMABLE] = { "SReclaimable:", METRIC_MEMORY_SLAB, "reclaimable" },
        [UNRECLAIMABLE] = { "SUnreclaim:", METRIC_MEMORY_SLAB, "unreclaimable" },
        [DIRTY] = { "Dirty:", METRIC_MEMORY_UNWRITTEN, "dirty" },
        [WRITEBACK] = { "Writeback:", METRIC_MEMORY_UNWRITTEN, "writeback" },
        [SWAP] = { "SwapTotal:", NONE, NULL },
        [SWAP_FREE] = { "SwapFree:", METRIC_PAGING_USAGE, "free" },
        [SWAP_USED] = { "", METRIC_PAGING_USAGE, "used" },
};
enum { FAULTS, MINOR, MAJOR, IN, OUT, KILLS, STALLS };
static const struct row events[] = {
        [FAULTS] = { "pgfault", NONE, NULL },
        [MINOR] = { "", METRIC_PAGING_FAULTS, "minor" },
        [MAJOR] = { "pgmajfault", METRIC_PAGING_FAULTS, "major" },
        [IN] = { "pswpin", METRIC_PAGING_OPERATIONS, "in" },
        [OUT] = { "pswpout", METRIC_PAGING_OPERATIONS, "out" },
        [KILLS] = { "oom_kill", METRIC_OOM_KILLS, NULL },
        [STALLS] = { "allocstall_*", METRIC_ALLOCATION_STALLS, NULL }, /* one a zone */
};

static void read_rows(const struct metrics_look *l, const struct row *rows, size_t n, const char *unit,
                      int64_t factor, int64_t values[static ROWS_MAX]) {
        struct field fields[ROWS_MAX];

        assert(n <= ROWS_MAX);
        for (size_t i = 0; i < n; i++)
                fields[i] = (struct field){ rows[i].key, &values[i] };
        lines_fields(l->lines, fields, n, unit, factor);
}

static void put_rows(const struct metrics_look *l, const struct row *rows, size_t n, const int64_t *values) {
        for (size_t i = 0; i < n; i++)
                if (rows[i].id != NONE && values[i] != FIELD_MISSING)
                        put_int(l->sink, rows[i].id, values[i], rows[i].state, NULL, NULL);
}

static void look_at_sizes(const struct metrics_look *l) {
        int64_t v[ROWS_MAX];

        if (look_lines(l, FILE_MEMINFO) < 0)
                return;
        read_rows(l, sizes, ELEMENTSOF(sizes), " kB", 1024, v);
        if (v[TOTAL] == FIELD_MISSING)
                return; /* not a meminfo */
        if (v[FREE] != FIELD_MISSING && v[BUFFERS] != FIELD_MISSING && v[CACHED] != FIELD_MISSING &&
            sum_held(sum_held(v[FREE], v[BUFFERS]), v[CACHED]) <= v[TOTAL])
                v[USED] = v[TOTAL] - v[FREE] - v[BUFFERS] - v[CACHED];
        if (v[SWAP] > 0 && v[SWAP_FREE] != FIELD_MISSING && v[SWAP_FREE] <= v[SWAP])
                v[SWAP_USED] = v[SWAP] - v[SWAP_FREE];
        else
                v[SWAP_FREE] = FIELD_MISSING;
        put_rows(l, sizes, ELEMENTSOF(sizes), v);
}

static void look_at_events(const struct metrics_look *l) {
        int64_t v[ROWS_MAX];

        if (look_lines(l, FILE_VMSTAT) < 0)
                return;
        read_rows(l, events, ELEMENTSOF(events), "", 1, v);
        if (v[MAJOR] != FIELD_MISSING && v[MAJOR] <= v[FAULTS])
                v[MINOR] = v[FAULTS] - v[MAJOR];
        put_rows(l, events, ELEMENTSOF(events), v);
}

/* --- Disks, from /proc/diskstats ----------------------------------------------------------------------- */

/* Of /proc/diskstats, whatever the disk's own (Linux, Documentation/admin-guide/iostats.rst). */
#define SECTOR 512

/* /sys/block holds whole disks only. */
static bool is_whole(const struct host *h, const char *name) {
        static const char *const not_wanted[] = { "loop", "ram", "zram", "sr", "fd" };
        char path[DISK_NAME_MAX + 16];
        _cleanup_close_ int fd = -1;

        for (size_t i = 0; i < ELEMENTSOF(not_wanted); i++)
                if (startswith(name, not_wanted[i]))
                        return false;
        (void) snprintf(path, sizeof(path), "/sys/block/%s", name);
        for (char *p = path + strlen("/sys/block/"); *p; p++)
                if (*p == '/')
                        *p = '!'; /* as sysfs does: "cciss/c0d0" */
        fd = host_open_file(h, path, O_PATH);
        return fd >= 0;
}

/* NULL: no disk of ours. */
static const char *find_disk(struct disks_state *d, const struct host *h, const char *name, size_t len) {
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

static void put_transfers(const struct metrics_look *l, const char *disk, const char *direction,
                          const struct transfers *t) {
        put_int(l->sink, METRIC_DISK_IO, t->sectors * SECTOR, disk, direction, NULL);
        put_int(l->sink, METRIC_DISK_OPERATIONS, t->done, disk, direction, NULL);
        put_double(l->sink, METRIC_DISK_OPERATION_TIME, (double) t->msec / 1e3, disk, direction, NULL);
}

/* "   8       0 sda 11 22 33 44 55 66 77 88 0 99 …" */
static void take_disk(struct disks_state *d, const struct metrics_look *l, const char *line) {
        const char *p = line, *word, *disk;
        struct transfers reads, writes;
        int64_t number, busy_msec;
        size_t len;

        if (!take_number(&p, &number) || !take_number(&p, &number) || !(word = take_word(&p, &len)))
                return;
        disk = find_disk(d, l->host, word, len);
        if (!disk || !take_transfers(&p, &reads) || !take_transfers(&p, &writes) ||
            !take_number(&p, &number) || !take_number(&p, &busy_msec))
                return;
        put_transfers(l, disk, "read", &reads);
        put_transfers(l, disk, "write", &writes);
        put_double(l->sink, METRIC_DISK_IO_TIME, (double) busy_msec / 1e3, disk, NULL, NULL);
}

void disks_look(struct disks_state *d, const struct metrics_look *l) {
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

/* --- All of it -------------------------------------------------------------------------------------- */

void system_look(struct system_state *s, const struct metrics_look *l) {
        look_at_cpus(s, l);
        look_at_pressure(l);
        look_at_sizes(l);
        look_at_events(l);
}
