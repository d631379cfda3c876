/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The numbers of this host, its runs and our own daemons, for the agent's every tick. Files of /proc, /sys
 * and control groups are kept open; after the first look nothing is allocated, unless NICs come or go. All
 * that is read here answers at once: what can hang (file systems) is a probe's, in a worker. What a kernel
 * or a machine does not have is left out, never a zero.
 *
 * Every counter counts since boot, a run's since its control group was made; one that starts anew (a NIC
 * that was reset, a run of the same name) is seen by whoever keeps the last value.
 */
#include "cgroup_files.h"
#include "run_look.h"

struct host_metrics;
int host_metrics_new(const struct host *h, struct host_metrics **ret); /* h borrowed */
struct host_metrics *host_metrics_free(struct host_metrics *m);
DEFINE_CLEANUP(struct host_metrics *, host_metrics_free)

/* now: boot clock. */
void host_metrics_look(struct host_metrics *m, usec_t now, struct sink *s);

/* One run that lives, by its name, and the control group that it is in where others started it, else NULL;
 * then host_metrics_runs_end(), which forgets the others. */
void host_metrics_look_at_run(struct host_metrics *m, const char *run, const char *group, struct sink *s);
void host_metrics_runs_end(struct host_metrics *m);

/* One run from close by, for who asks: run_look.h. */
int host_metrics_look_close(struct host_metrics *m, const char *run, const char *group, usec_t now,
                            struct run_look *ret);

/* What a run took so far, and all NICs together; negative: not known. */
struct run_counters {
        int64_t cpu_usec, written_bytes, net_bytes;
};

/* As of the last look at all, or looked at anew. */
void host_metrics_run_counters(struct host_metrics *m, const char *run, const char *group, bool anew,
                               struct run_counters *ret);
