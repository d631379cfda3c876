/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The BPF programs in the agent: loaded at start by tpu-hostd-bpf, whose answers come through the loop; a check a set ("bpf_net").
 */
#include "agent.h"
#include "bpf_sets.h"
#include "net_figures.h"

struct agent_bpf;

/*
 * First of all: gives CAP_BPF and CAP_PERFMON up, whatever happens. With a root other than / nothing is loaded. What
 * cannot be loaded is a verdict and no failure: -ENOMEM.
 */
int agent_bpf_start(struct bus *b);
void agent_bpf_stop(struct bus *b);
/* NULL: there are none (yet). */
struct bpf_sets *agent_bpf_sets(const struct bus *b);
/* The network's figures, which go on meanwhile. NULL: there are none (yet). */
const struct net_figures *agent_bpf_figures(const struct bus *b);
