/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_use.h"

#define MISSING (-1)

struct field {
        const char *key;
        int64_t *value;
};

/* "MemTotal:  754974720 kB" into bytes. */
static void take_meminfo(const char *line, const struct field *fields, size_t n) {
        const char *colon = strchr(line, ':'), *p;
        int64_t kb;

        if (!colon)
                return;
        for (size_t i = 0; i < n; i++) {
                if (!word_is(line, (size_t) (colon - line), fields[i].key))
                        continue;
                p = colon + 1;
                if (take_number(&p, &kb) && streq(p, " kB") && kb <= INT64_MAX / 1024)
                        *fields[i].value = kb * 1024;
                return;
        }
}

static void put_if(const struct look *l, enum metric_id id, int64_t value, const char *state) {
        if (value != MISSING)
                put_int(l->sink, id, value, state, NULL, NULL);
}

static void look_at_sizes(struct memory_state *m, const struct look *l) {
        int64_t total = MISSING, available = MISSING, unused = MISSING, buffers = MISSING, cached = MISSING,
                swap = MISSING, swap_free = MISSING, dirty = MISSING, writeback = MISSING,
                reclaimable = MISSING, unreclaimable = MISSING;
        const struct field fields[] = {
                { "MemTotal", &total },       { "MemAvailable", &available },  { "MemFree", &unused },
                { "Buffers", &buffers },      { "Cached", &cached },           { "SwapTotal", &swap },
                { "SwapFree", &swap_free },   { "Dirty", &dirty },             { "Writeback", &writeback },
                { "SReclaimable", &reclaimable }, { "SUnreclaim", &unreclaimable },
        };

        if (lines_begin(l->lines, &m->meminfo, l->host, "/proc/meminfo") < 0)
                return;
        for (char *line; (line = lines_next(l->lines));)
                take_meminfo(line, fields, ELEMENTSOF(fields));
        if (total == MISSING)
                return; /* not a meminfo */
        put_if(l, METRIC_MEMORY_LIMIT, total, NULL);
        put_if(l, METRIC_MEMORY_AVAILABLE, available, NULL);
        put_if(l, METRIC_MEMORY_USAGE, unused, "free");
        put_if(l, METRIC_MEMORY_USAGE, buffers, "buffers");
        put_if(l, METRIC_MEMORY_USAGE, cached, "cached");
        if (unused != MISSING && buffers != MISSING && cached != MISSING &&
            sum_held(sum_held(unused, buffers), cached) <= total)
                put_int(l->sink, METRIC_MEMORY_USAGE, total - unused - buffers - cached, "used", NULL, NULL);
        put_if(l, METRIC_MEMORY_SLAB, reclaimable, "reclaimable");
        put_if(l, METRIC_MEMORY_SLAB, unreclaimable, "unreclaimable");
        put_if(l, METRIC_MEMORY_UNWRITTEN, dirty, "dirty");
        put_if(l, METRIC_MEMORY_UNWRITTEN, writeback, "writeback");
        if (swap > 0 && swap_free != MISSING && swap_free <= swap) {
                put_int(l->sink, METRIC_PAGING_USAGE, swap_free, "free", NULL, NULL);
                put_int(l->sink, METRIC_PAGING_USAGE, swap - swap_free, "used", NULL, NULL);
        }
}

static void look_at_events(struct memory_state *m, const struct look *l) {
        int64_t faults = MISSING, major = MISSING, in = MISSING, out = MISSING, kills = MISSING,
                stalls = MISSING;
        const struct field fields[] = { { "pgfault", &faults }, { "pgmajfault", &major }, { "pswpin", &in },
                                        { "pswpout", &out },    { "oom_kill", &kills } };

        if (lines_begin(l->lines, &m->vmstat, l->host, "/proc/vmstat") < 0)
                return;
        for (char *line; (line = lines_next(l->lines));) {
                const char *p = line, *key;
                int64_t value;
                size_t n;

                key = take_word(&p, &n);
                if (!key || !take_number(&p, &value) || *p)
                        continue;
                for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                        if (word_is(key, n, fields[i].key))
                                *fields[i].value = value;
                if (startswith(key, "allocstall_")) /* one a zone */
                        stalls = sum_held(MAX(stalls, (int64_t) 0), value);
        }
        if (faults != MISSING && major != MISSING && major <= faults)
                put_int(l->sink, METRIC_PAGING_FAULTS, faults - major, "minor", NULL, NULL);
        put_if(l, METRIC_PAGING_FAULTS, major, "major");
        put_if(l, METRIC_PAGING_OPERATIONS, in, "in");
        put_if(l, METRIC_PAGING_OPERATIONS, out, "out");
        put_if(l, METRIC_OOM_KILLS, kills, NULL);
        put_if(l, METRIC_ALLOCATION_STALLS, stalls, NULL);
}

void memory_look(struct memory_state *m, const struct look *l) {
        look_at_sizes(m, l);
        look_at_events(m, l);
}

void memory_close(struct memory_state *m) {
        source_close(&m->meminfo);
        source_close(&m->vmstat);
}
