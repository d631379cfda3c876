/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One look at this host by all probes, or one: those that may hang in workers beside, so that a stuck file
 * system costs a line and not the report. */
#include "finding.h"
#include "host.h"
#include "options.h"
#include "probe.h"

struct look {
        const struct host *host;
        const struct probe_context *context;
        const struct probe *one; /* NULL: all */
        const char *only;        /* "nic.mtu": findings of this check alone; NULL: all */
};

struct seen {
        struct finding_list groups[_GROUP_MAX];
        struct finding_list all; /* in the order of probes.def */
        bool incomplete;         /* more findings than fit */
};
void seen_clear(struct seen *s);
#define _cleanup_seen_ _cleanup_(seen_clear)

/* Adds one finding, unless only asks for others. */
void seen_add(struct seen *seen, enum probe_group group, const char *only, const struct finding *f);

/* Adds to *ret; what cannot be looked at is a finding there. */
void check_look(const struct look *l, struct seen *ret);

/* In the worker: runs one probe and writes its lines on standard output. The exit code. */
int check_serve(const struct host *h, const char *name);

/*
 * Checks that tpu-hostd alone can make: what the registry and the other hosts say ("enroll.registry",
 * "preflight.ports", …), and which BPF programs of its run, and why others do not ("bpf_net", …). A kernel
 * or a build may lack these last: as for the state of the host, they count only when they are asked for by
 * name.
 */

#define CHECK_AGENT "bpf" /* their name as a group */

/* "bpf", "bpf_net", "enroll", "preflight.ports" */
bool check_agent_is(const char *name);

/* Adds what tpu-hostd's socket below root says; only: "bpf_net", "enroll", NULL: all. Where it is silent:
 * one UNKNOWN if asked is set, else nothing: a look at the host needs no daemon. */
void check_agent(const char *root, const char *only, bool asked, struct seen *ret);

/* The gravest of what counts in a look at the whole host. */
enum verdict check_agent_worst(const struct finding_list *l);

/* --- The paths to the peers --------------------------------------------------------------------------- */

/* tpuctl check path: proves them, here and now, without any daemon. Prints the report and returns the exit
 * code of a check. peers: those of --peer; NULL: the configuration's and the identity's. */
int check_path(const struct options *o, const char *peers, bool json);

/*
 * One screen: findings that are OK and alike share a line. Pure.
 *
 * Alike are those of one check that found the same, or that each found just what was wanted (nine sysctls).
 * The line stands where the first of them stood. What is not OK always has its line and its remedy.
 */
/* Adds to *ret (empty before): -ENOMEM, -E2BIG. */
int fold_findings(const struct finding_list *l, struct finding_list *ret);
