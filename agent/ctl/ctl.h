/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The verbs of tpuctl. Each gets the words of its own command line (argv[0] is the verb) and what stood
 * before it, prints its answer on standard output and complaints on standard error, and returns the exit
 * code: that of a check (0, 1, 2, 3) where it judges something, 3 where somebody who should answer does not,
 * 1 where somebody refused, 64 for a usage error.
 */
#include "base.h"
#include "options.h"

#define EXIT_REFUSED 1
#define EXIT_NO_ANSWER 3 /* as UNKNOWN of a check: nothing is known to be wrong */

struct ctl {
        const char *root, *config; /* --root and --config as they stood before the verb; NULL: not given */
};

int verb_check(const struct ctl *c, int argc, char *argv[]);
int verb_status(const struct ctl *c, int argc, char *argv[]);
int verb_uplink(const struct ctl *c, int argc, char *argv[]);
int verb_net(const struct ctl *c, int argc, char *argv[]);
int verb_identity(const struct ctl *c, int argc, char *argv[]);
int verb_env(const struct ctl *c, int argc, char *argv[]);
int verb_run(const struct ctl *c, int argc, char *argv[]);
int verb_jobs(const struct ctl *c, int argc, char *argv[]);
int verb_stop(const struct ctl *c, int argc, char *argv[]);
int verb_logs(const struct ctl *c, int argc, char *argv[]);
int verb_stack(const struct ctl *c, int argc, char *argv[]);
int verb_sched(const struct ctl *c, int argc, char *argv[]);
int verb_io(const struct ctl *c, int argc, char *argv[]);
int verb_diagnose(const struct ctl *c, int argc, char *argv[]);
int verb_cordon(const struct ctl *c, int argc, char *argv[]);
int verb_uncordon(const struct ctl *c, int argc, char *argv[]);
int verb_drain(const struct ctl *c, int argc, char *argv[]);
int verb_silence(const struct ctl *c, int argc, char *argv[]);
int verb_unsilence(const struct ctl *c, int argc, char *argv[]);
int verb_mode(const struct ctl *c, int argc, char *argv[]);
int verb_fleet(const struct ctl *c, int argc, char *argv[]);
int verb_events(const struct ctl *c, int argc, char *argv[]);
