/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tpuctl check path: proves the network paths to the peers, here and now, without any daemon. Prints the
 * report and returns the exit code of a check. */
#include "options.h"

struct check_path_request {
        const char *peers; /* --peer; NULL: the configuration's and the identity's */
        const char *peer_report; /* --peer-report: peers' saved reports; NULL: none */
        bool json;
};

int check_path(const struct options *o, const struct check_path_request *q);
