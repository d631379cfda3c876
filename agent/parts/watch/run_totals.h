/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What BPF programs saw of one run, added up: each time that it was watched, and what ended its processes; as the metrics
 * tpu.run.* of docs/metrics.md. Pure, of fixed size.
 */
#include <linux/types.h>

#include "base.h"
#include "deaths.h"
#include "io_figures.h"
#include "probe.h"
#include "sched_figures.h"

#define RUN_TOTALS_MAX 8u   /* runs */
#define RUN_DEATHS_MAX 16u /* ways to die, of one run */

enum watch_kind { WATCH_SCHED, WATCH_IO, _WATCH_KIND_MAX };

struct run_deaths {
        int signal;         /* 0: all that found no place of their own */
        const char *sender; /* static; as the metric says it */
        uint64_t n;
};

struct run_total {
        char run[64]; /* empty: of no run */
        usec_t watched[_WATCH_KIND_MAX]; /* for so long, all watches together */
        uint64_t lost[_WATCH_KIND_MAX];
        struct sched_shard sched;
        struct io_times requests[IO_OPERATIONS], calls[IO_CALLS];
        uint64_t held_back;
        struct run_deaths deaths[RUN_DEATHS_MAX];
        size_t n_deaths;
};

/* One watch that ended after span. */
void run_total_add_sched(struct run_total *t, const struct sched_figures *f, usec_t span);
void run_total_add_io(struct run_total *t, const struct io_figures *f, usec_t span);
void run_total_add_death(struct run_total *t, const struct death *d);

/* Its metrics; what never happened has none. */
void run_total_put_watched(const struct run_total *t, enum watch_kind kind, struct sink *s);
void run_total_put_deaths(const struct run_total *t, struct sink *s);
