/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Checks that tpu-hostd alone can make: which BPF programs of its run, and why others do not ("bpf_net", …). A kernel or a build may
 * lack them: as for the state of the host, they count only when they are asked for by name.
 */
#include "check_look.h"

#define CHECK_AGENT "bpf" /* their name as a group */

/* "bpf", "bpf_net" */
bool check_agent_is(const char *name);
/* Adds what tpu-hostd's socket below root says; only: "bpf_net", NULL: all. When it says nothing: one UNKNOWN if asked is set, else
 * nothing: a look at the host needs no daemon. */
void check_agent(const char *root, const char *only, bool asked, struct seen *ret);
/* The gravest of what counts in a look at the whole host. */
enum verdict check_agent_worst(const struct finding_list *l);
