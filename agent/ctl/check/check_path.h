/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tpuctl check path: proves the network paths to the peers, here and now, without any daemon. Prints the
 * report and returns the exit code of a check. */
#include "ask.h"
#include "path_report.h"

struct check_path_request {
        const char *peers; /* --peer; NULL: the configuration's and the identity's */
        const char *peer_report; /* --peer-report: peers' saved reports; NULL: none */
        bool json;
};

int check_path(const struct options *o, const struct check_path_request *q);

/* --- What the peers' own agents found ---------------------------------------------------------------- */

/*
 * What the agents of a path's peers found, asked over TCP (docs/api.md, "The agent over TCP") with AgentCa=,
 * AgentCertificate= and AgentKey= of tpuctl.conf. The path may be the one that drops large packets: the
 * exchange goes in small ones.
 */
/* Reports one after the other, as files and agents give them. */
#define REPORTS_MAX 4096 /* a slice's */

struct ctl_reports {
        struct path_report *items;
        size_t n;
};
void ctl_reports_clear(struct ctl_reports *l);
/* Adds all reports of a text. -EBADMSG, -E2BIG or -ENOMEM with why. */
int ctl_reports_add(struct ctl_reports *l, const char *text, size_t len,
                    char why[static PATH_REPORT_WHY_MAX]);

/*
 * Asks the peers of own's paths that do not carry full size, each once, and adds their reports to ret. Who
 * gives none is named on standard error: what own found stands without it. Nobody is asked without
 * AgentCertificate=. -errno after saying why.
 */
int peer_agents_ask(const struct options *o, const struct path_report *own, struct ctl_reports *ret);

/* The name to ask for a result's peer: without the "-NIC" of names such as h3-eth1. Pure. */
void peer_agents_name(const struct path_result *r, char ret[static PATH_NAME_MAX]);
