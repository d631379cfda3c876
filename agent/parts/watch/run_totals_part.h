/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that keeps what BPF programs saw of the runs of this host, as the metrics tpu.run.* of
 * docs/metrics.md: each time that a run was watched, and what ended its processes. It is handed over when a
 * watch ended or a process died, and at no other time. /metrics shows it as long as the run lives.
 */
#include <linux/types.h>

#include "deaths.h"
#include "io_figures.h"
#include "part.h"
#include "sched_figures.h"

extern const struct part run_totals_part;

/* A watch of the run ended after span; its figures are as it left them. */
void run_totals_watched_sched(const struct bus *b, const char *run, const struct sched_figures *f,
                              usec_t span);
void run_totals_watched_io(const struct bus *b, const char *run, const struct io_figures *f, usec_t span);
/* A process of the run was ended so. */
void run_totals_died(const struct bus *b, const char *run, const struct death *d);

/* --- What is added up of one run: pure, of fixed size -------------------------------------------------- */

#define RUN_TOTALS_MAX 8u   /* runs */
#define RUN_DEATHS_MAX 16u /* causes of death, of one run */

enum watch_kind { WATCH_SCHED, WATCH_IO, _WATCH_KIND_MAX };

struct run_deaths {
        int signal;         /* 0: all that found no place of their own */
        const char *sender; /* static; a value of the metric */
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
