/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A probe looks at one thing of the host and says what it found: findings (verdicts with reasons) and
 * samples (numbers). It reads through the host seam only, keeps nothing between runs, allocates nothing per
 * sample, and is done within its timeout. Adding one: a file probes/NAME.c with its function probe_NAME(), a
 * line in probes.def, a fixture test.
 */
#include <linux/types.h>

#include "base.h"
#include "finding.h"
#include "host.h"

struct daemon_states; /* agent/base/daemon_states.h */
struct device_owners; /* agent/base/device_owners.h */
struct intent;        /* netcfg/intent/intent.h: what is wanted of NICs and sysctls */
struct machine_type;  /* netcfg/intent/machine.h */

enum sample_kind {
        SAMPLE_GAUGE,
        SAMPLE_COUNTER,   /* cumulative, monotonic, since boot */
        SAMPLE_HISTOGRAM, /* cumulative; no number but a histogram */
};

/* counts[i] values were at most bounds[i], and above the bound before it; the last count is of what is above
 * all bounds. Bounds rise and are finite; the counts' sum is count. */
struct sample_histogram {
        uint64_t count;
        double sum;
        double min, max; /* NAN: not known */
        const double *bounds;
        const uint64_t *counts; /* n_bounds + 1 */
        size_t n_bounds;
};

#define SAMPLE_KEYS_MAX 5

/* One number. Names follow OpenTelemetry's semantic conventions where one exists, else start with "tpu.". */
struct sample {
        const char *name, *unit, *description; /* static */
        enum sample_kind kind;
        bool is_int;
        union {
                double d;
                int64_t i;
                const struct sample_histogram *h;
        };
        const char *keys[SAMPLE_KEYS_MAX]; /* attributes; unused ones NULL */
        const char *values[SAMPLE_KEYS_MAX];
};

/* The metrics by id: metrics.def is the one list. */
enum metric_id {
#define METRIC(id, kind, name, unit, key0, key1, key2, description) METRIC_##id,
#define METRIC_5(id, kind, name, unit, key0, key1, key2, key3, key4, description) METRIC_##id,
#include "metrics.def"
#undef METRIC
#undef METRIC_5
        _METRIC_MAX,
};

struct metric_def {
        const char *name, *unit, *description;
        enum sample_kind kind;
        const char *keys[SAMPLE_KEYS_MAX];
};
const struct metric_def *metric_def(enum metric_id id);

/* Where results go. Both functions copy what they keep. */
struct sink {
        void (*finding)(struct sink *s, const struct finding *f);
        void (*sample)(struct sink *s, const struct sample *m);
};

/* Hands one number over; the values are those of the metric's keys, NULL where it has none. */
void put_int(struct sink *s, enum metric_id id, int64_t value, const char *v0, const char *v1,
             const char *v2);
void put_double(struct sink *s, enum metric_id id, double value, const char *v0, const char *v1,
                const char *v2);
/* A sum of what somebody else tells, believed up to what a sample holds. */
void put_uint(struct sink *s, enum metric_id id, uint64_t value, const char *v0, const char *v1,
              const char *v2);
void put_histogram(struct sink *s, enum metric_id id, const struct sample_histogram *h, const char *v0,
                   const char *v1);
/* A histogram as BPF programs count it: buckets of powers of two microseconds, the last without a bound; ns:
 * the sum. One in which nothing was counted is left out. */
#define PUT_BUCKETS_MAX 64
void put_buckets(struct sink *s, enum metric_id id, const __u64 *buckets, size_t n, uint64_t ns,
                 const char *v0, const char *v1);

/* Replaces control characters and what is no UTF-8 by '?', in place: nothing that was read may move the
 * reader's cursor. Returns text. */
char *make_printable(char *text);

/* What a probe may use besides the seam; pointers may be NULL when unknown. */
struct probe_context {
        const struct intent *intent;
        /* chips that the identity says this host has; 0 with a chips_source: none; 0 without: not known */
        uint32_t chips_wanted;
        const char *chips_source;           /* who says so */
        const char *machine_type;           /* "ct6e-standard-4t"; NULL: not known */
        /* What machines.conf says of that, from who runs probes again and again; chips is 0 when it says
         * nothing. NULL: the probe looks itself (tpu_sysfs.h). */
        const struct machine_type *machine;
        const struct device_owners *owners; /* what tpu-launchd answered; NULL: it was not asked */
        const struct daemon_states *daemons; /* NULL: nobody was asked */
};

/* Where a report lists a probe. */
enum probe_group {
        GROUP_CHIPS,
        GROUP_NETWORK,
        GROUP_HOST,
        GROUP_SOFTWARE,
        GROUP_IDENTITY, /* no probe's: what the identity's own check says */
        GROUP_PEERS,    /* no probe's: what tpu-hostd says of the registry and the other hosts */
        GROUP_BPF,      /* no probe's: what tpu-hostd says of its BPF programs */
        _GROUP_MAX,
};
const char *probe_group_title(enum probe_group g); /* "Chips", … */

/* What a line of probes.def says of a probe beside its times. */
#define PROBE_BLOCKS 1
#define PROBE_ASKS_OWNERS 2
#define PROBE_ASKS_DAEMONS 4

struct probe {
        const char *name, *summary;
        enum probe_group group;
        usec_t interval, timeout;
        /* May hang, on a file system or another process: a daemon runs it in a worker that is killed at the
         * timeout (probes/worker/worker.h). It gets no intent and no identity. */
        bool blocks;
        bool asks_owners; /* context->owners is to be filled; blocks, then, too */
        bool asks_daemons; /* context->daemons, likewise */
        /* 0, or -errno when nothing could be looked at at all (it then becomes one UNKNOWN finding). */
        int (*run)(const struct host *h, const struct probe_context *c, struct sink *s);
};

#define PROBE(name, group, every, within, flags, summary) \
        int probe_##name(const struct host *h, const struct probe_context *c, struct sink *s);
#include "probes.def"
#undef PROBE

/* All probes, ended by NULL; from probes.def. */
extern const struct probe *const probe_table[];
/* NULL when there is no probe of that name. */
const struct probe *probe_find(const char *name);
/*
 * Runs p and makes its failure a finding: check and subject of the probe's name, UNKNOWN, with the reason.
 * Callers use this, not p->run(). Returns what p->run() returned.
 */
int probe_run(const struct probe *p, const struct host *h, const struct probe_context *c, struct sink *s);
