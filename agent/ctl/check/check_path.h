/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tpuctl check path: proves the network paths to the peers, here and now, without any daemon. Prints the
 * report and returns the exit code of a check. peers: those of --peer; NULL: the configuration's and the
 * identity's. */
#include "options.h"

int check_path(const struct options *o, const char *peers, bool json);
