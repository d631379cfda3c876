/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What one proof found, as a value that can be printed: `tpuctl check path --json` and the agent's /v1/path
 * have this one shape (docs/path.md). Pure; memory is the report's own.
 */
#include <jansson.h>

#include "clock.h"
#include "finding.h"
#include "host.h"
#include "lane.h"
#include "path_view.h"
#include "peers.h"
#include "port_probe.h"

/* What a connection to a port of runs met (port_probe.h), beside the echoes. */
struct path_port {
        bool tried;
        enum port_answer answer;
        int error;
        const char *dropped_by; /* silent: who on this host threw it away; NULL: nobody here did */
        bool lossy; /* silent: so many packets of this host's paths are lost that this may be all of it */
};

/* One path that was tried. */
struct path_result {
        char nic[IF_NAMESIZE], peer[PATH_NAME_MAX]; /* peer: the name that was tried */
        union path_address from, to;
        uint32_t mtu; /* the full size: of nic */
        struct path_view view;
        struct proof_result proof;
        struct path_port port;
        size_t finding; /* its index in findings */
};

/*
 * What became of one path, as a finding "path.mtu". An echo goes in both directions; what tells them apart
 * are the datagrams to a closed port, which go towards the peer only. A result that says "towards the peer"
 * has not seen the other direction.
 */
#define PATH_CHECK "path.mtu"

/* Makes the subject: "eth0→h3 (10.10.0.13)"; a long name is cut, never the address. */
void path_finding_init(struct finding *f, const struct path_result *p);
void path_judge(const struct path_result *p, struct finding *ret);
/* Finding "path.tcp" of the port that was tried. False: an answer came, or the path is silent altogether. */
#define PATH_PORT 8471 /* libtpu's mesh: every host of a run has it */
bool path_judge_port(const struct path_result *p, struct finding *ret);
/* Finding "path.loss". False: no more was lost than by chance, or it was not counted. */
bool path_judge_loss(const struct path_result *p, struct finding *ret);

struct path_report {
        char host[HOST_NAME_SIZE];
        char time[CLOCK_TEXT_MAX]; /* when it ended, RFC 3339; by the host's own clock */
        struct finding_list findings;
        struct path_result *results;
        size_t n_results;
        size_t packets; /* sent */
        usec_t duration;
};
#define PATH_REPORT_NULL ((struct path_report){ 0 })
void path_report_clear(struct path_report *r);
#define _cleanup_path_report_ _cleanup_(path_report_clear)

/* New reference; NULL when out of memory. */
json_t *path_report_to_json(const struct path_report *r);

/* Adds a result, for which there is room in results, and its finding. -ENOMEM, -E2BIG. */
int path_report_add(struct path_report *report, const struct path_result *r);
