/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One call, for the daemon is a loop that main() enters: a first pass, then one whenever a link or route
 * changed or someone wrote a sysctl, and every 30 s (the kernel does not report every change of a sysctl).
 * Answers ReportRequest frames on /run/tpu-netcfg/netcfg.sock with the last pass, and takes NetworkMtu
 * frames there from root and tpu-hostd (handover.h). Stops at SIGTERM or SIGINT and leaves the settings as
 * they are.
 */
#include "pass.h"

/* n has its intent and its runtime directory. Returns 0 after SIGTERM, else -errno (logged). */
int daemon_run(struct netcfg *n);
