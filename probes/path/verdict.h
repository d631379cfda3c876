/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What became of one path, as a finding "path.mtu"; and its direction out of two hosts' results. An echo
 * goes in both directions, so that the echoes of both hosts fail alike; what tells the directions apart are
 * the datagrams to a closed port, which each host sends in its own direction only. A result that says
 * "towards the peer" has not seen the other direction: the peer's own result has. Pure.
 */
#include "path_report.h"

#define PATH_CHECK "path.mtu"

/* Makes the subject: "eth0→h3 (10.10.0.13)"; a long name is cut, never the address. */
void path_finding_init(struct finding *f, const struct path_result *p);
void path_judge(const struct path_result *p, struct finding *ret);
/* Finding "path.loss". False: no more was lost than by chance, or it was not counted. */
bool path_judge_loss(const struct path_result *p, struct finding *ret);

enum path_leg {
        PATH_LEG_UNKNOWN,
        PATH_LEG_CARRIES, /* packets of full size */
        PATH_LEG_DROPS,   /* larger ones than what passes */
};

/* Seen from this host: there is from it to the peer. */
struct path_legs {
        enum path_leg there, back;
        bool contradiction; /* the two results cannot both be so at one time: then own's alone is reported */
};

/*
 * Both together. theirs is the peer's result for the same two addresses. Where the full sizes differ, the
 * peer's counts as far as it says something about own's: what carries more carries less, what drops less
 * drops more.
 */
void path_legs_merge(const struct path_result *own, const struct path_result *theirs,
                     struct path_legs *ret);

/*
 * Says in the findings of own what the peers' reports add: the direction, or that they contradict it. A
 * finding that was OK becomes WARN by a report that contradicts it; none becomes OK by what another host
 * saw at another time.
 */
void path_report_add_witnesses(struct path_report *own, const struct path_report *peers, size_t n);
