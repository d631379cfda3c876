/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What BPF programs told of the runs of this host, as metrics: handed over when a watch ended or a process died, and never else. /metrics
 * shows it as long as the run lives.
 */
#include "agent.h"

/* The watch of that kind ended after span; its figures are as it left them. */
void agent_run_totals_watched(struct bus *b, enum watch_kind kind, usec_t span);
/* A process of the run was ended so. */
void agent_run_totals_died(struct bus *b, const char *run, const struct death *d);
/* Forgets runs that are over, as soon as all of theirs was handed over. */
void agent_run_totals_tick(struct bus *b);
void agent_run_totals_stop(struct bus *b);
