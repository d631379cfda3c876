/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Captures asked of the agents of a slice, without any collector: its hosts are those that the agent of this
 * host knows (its registry's roster, or its identity's workers), each asked on port 9470 with AgentCa=,
 * AgentCertificate= and AgentKey= of tpuctl.conf, this one over its own socket. Twice, some seconds apart.
 * Who does not answer is evidence, too.
 */
#include "options.h"
#include "problem.h"
#include "evidence.h"

/* What runs on each is captured. -errno with problem set: nobody could be asked. */
int diagnose_agents_load(const struct options *o, const char *slice, struct scene *s,
                         struct problem *problem);
