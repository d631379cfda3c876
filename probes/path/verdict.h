/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What became of one path, as a finding "path.mtu". An echo goes in both directions; what tells them apart
 * are the datagrams to a closed port, which go towards the peer only. A result that says "towards the peer"
 * has not seen the other direction. Pure.
 */
#include "path_report.h"

#define PATH_CHECK "path.mtu"

/* Makes the subject: "eth0→h3 (10.10.0.13)"; a long name is cut, never the address. */
void path_finding_init(struct finding *f, const struct path_result *p);
void path_judge(const struct path_result *p, struct finding *ret);
/* Finding "path.tcp" of the port that was tried. False: an answer came, or the path is silent altogether. */
#define PATH_PORT 8471 /* libtpu's mesh: every host of a run has it */
bool path_judge_port(const struct path_result *p, struct finding *ret);
/* Finding "path.loss". False: no more was lost than by chance, or it was not counted. */
bool path_judge_loss(const struct path_result *p, struct finding *ret);
