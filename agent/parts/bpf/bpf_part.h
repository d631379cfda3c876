/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that has the BPF programs: tpu-hostd-bpf loads them at start, and its answers come in the loop.
 * Each set has one check ("bpf_net"). It is the first of all parts, because its start gives CAP_BPF and
 * CAP_PERFMON up, whatever happens, and that must be before there is a socket or a thread. With a root other
 * than / nothing is loaded. What cannot be loaded is a verdict and no failure.
 */
#include "bpf_sets.h"
#include "net_figures.h"
#include "part.h"

extern const struct part bpf_part;

/* NULL: there are none (yet). */
struct bpf_sets *bpf_sets_of(const struct bus *b);
/* The figures of the network, which change while they are read. NULL: there are none (yet). */
const struct net_figures *bpf_net_figures(const struct bus *b);
