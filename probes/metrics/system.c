/* SPDX-License-Identifier: Apache-2.0 */
#include "system.h"

#include <assert.h>

/* --- CPUs ---------------------------------------------------------------------------------------------- */

#define CPUS_MAX 65536

/* The columns of the line "cpu" (proc(5)), USER_HZ each. The conventions know no softirq: the value is our
 * own, because it is where a host's network receives. guest is part of user. */
static const char *const modes[] = { "user",   "nice",      "system",  "idle",
                                     "iowait", "interrupt", "softirq", "steal" };
_Static_assert(ELEMENTSOF(modes) == CPU_MODES, "a column a mode");

static void look_at_time(struct system_state *c, const struct look *l) {
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
        int64_t n = 0;

        for (const char *p = text;; p++) {
                int64_t first, last;

                if (!take_number(&p, &first))
                        return 0;
                last = first;
                if (*p == '-') {
                        p++;
                        if (!take_number(&p, &last))
                                return 0;
                }
                if (last < first || last >= CPUS_MAX)
                        return 0;
                n += last - first + 1;
                if (*p != ',')
                        return (*p == 0 || *p == '\n') && n <= CPUS_MAX ? n : 0;
        }
}

static void look_at_cpus(struct system_state *c, const struct look *l) {
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

static void look_at_pressure(const struct look *l) {
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
        enum metric_id id; /* NONE: it is told of no further than that */
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

static void read_rows(const struct look *l, const struct row *rows, size_t n, const char *unit,
                      int64_t factor, int64_t values[static ROWS_MAX]) {
        struct field fields[ROWS_MAX];

        assert(n <= ROWS_MAX);
        for (size_t i = 0; i < n; i++)
                fields[i] = (struct field){ rows[i].key, &values[i] };
        lines_fields(l->lines, fields, n, unit, factor);
}

static void put_rows(const struct look *l, const struct row *rows, size_t n, const int64_t *values) {
        for (size_t i = 0; i < n; i++)
                if (rows[i].id != NONE && values[i] != FIELD_MISSING)
                        put_int(l->sink, rows[i].id, values[i], rows[i].state, NULL, NULL);
}

static void look_at_sizes(const struct look *l) {
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

static void look_at_events(const struct look *l) {
        int64_t v[ROWS_MAX];

        if (look_lines(l, FILE_VMSTAT) < 0)
                return;
        read_rows(l, events, ELEMENTSOF(events), "", 1, v);
        if (v[MAJOR] != FIELD_MISSING && v[MAJOR] <= v[FAULTS])
                v[MINOR] = v[FAULTS] - v[MAJOR];
        put_rows(l, events, ELEMENTSOF(events), v);
}

void system_look(struct system_state *s, const struct look *l) {
        look_at_cpus(s, l);
        look_at_pressure(l);
        look_at_sizes(l);
        look_at_events(l);
}
