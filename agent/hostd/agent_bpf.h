/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The BPF programs in the agent: loaded at start by tpu-hostd-bpf, whose answers come through the loop; a check a set ("bpf_net").
 */
#include "agent.h"
#include "bpf_sets.h"
#include "net_rows.h"

struct agent_bpf;

/*
 * First of all: gives CAP_BPF and CAP_PERFMON up, whatever happens. With a root other than / nothing is loaded. What
 * cannot be loaded is a verdict and no failure: -ENOMEM.
 */
int agent_bpf_start(struct agent *a);
void agent_bpf_stop(struct agent *a);
/* NULL: there are none (yet). */
struct bpf_sets *agent_bpf_sets(const struct agent *a);
/* In the tick: the samples of it. */
void agent_bpf_tick(struct agent *a, struct sink *s);

/* The network's figures as of the last tick, and the kernel's own, which go on. NULL: there are none (yet). */
const struct net_rows *agent_bpf_rows(const struct agent *a);
const struct net_figures *agent_bpf_figures(const struct agent *a);

/* --- agent_bpf_net.c: the network's figures -------------------------------------------------------------- */

struct agent_bpf_net;
int agent_bpf_net_new(struct agent_bpf_net **ret);
struct agent_bpf_net *agent_bpf_net_free(struct agent_bpf_net *n);
const struct net_rows *agent_bpf_net_rows(const struct agent_bpf_net *n);
/* s: where samples go. */
void agent_bpf_net_tick(struct agent *a, struct agent_bpf_net *n, const struct net_figures *f, struct sink *s);
