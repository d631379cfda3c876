/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The captures of a slice as a scene, from the agents or from a collector.
 *
 * From the agents: captures asked of the agents of a slice, without any collector: its hosts are those that
 * the agent of this host knows (its registry's roster, or its identity's workers), each asked on port 9470
 * with AgentCa=, AgentCertificate= and AgentKey= of tpuctl.conf, this one over its own socket. Twice, some
 * seconds apart. Who does not answer is evidence, too.
 */
#include "ask.h"
#include "evidence.h"
#include "options.h"

/* What runs on each is captured. -errno with problem set: nobody could be asked. */
int diagnose_agents_load(const struct options *o, const char *slice, struct scene *s,
                         struct problem *problem);

/* --- Of a collector: the captures that it has of an episode; and asking for new ones ----------------- */

struct kept_verdict {
        json_t *words; /* what the collector says of the episode; the caller's */
        const json_t *report; /* of words: the verdict, where the captures are not kept; else NULL */
};

/* Whether the collector says that there is no such slice. */
bool diagnose_collector_lacks(struct collector *c, const char *slice);

/* Asks for a round of captures and waits for its verdict; episode (64 bytes) is then its name. -errno with
 * problem set. */
int diagnose_collector_capture(struct collector *c, const char *slice, char episode[static 64],
                               struct problem *problem);

/* Adds the captures of this episode (NULL: the last) to s, and who was asked and is silent. -errno with
 * problem set. */
int diagnose_collector_load(struct collector *c, const char *slice, const char *episode,
                            struct scene *s, struct kept_verdict *ret, struct problem *problem);
