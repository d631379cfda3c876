/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that keeps what BPF programs saw of the runs of this host, as metrics: handed over when a watch ended or a process died,
 * and at no other time. /metrics shows it as long as the run lives.
 */
#include "part.h"
#include "run_totals.h"

extern const struct part run_totals_part;

/* A watch of the run ended after span; its figures are as it left them. */
void run_totals_watched_sched(const struct bus *b, const char *run, const struct sched_figures *f, usec_t span);
void run_totals_watched_io(const struct bus *b, const char *run, const struct io_figures *f, usec_t span);
/* A process of the run was ended so. */
void run_totals_died(const struct bus *b, const char *run, const struct death *d);
