/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a run printed on other hosts, as the collector has it. */
#include "collector.h"

struct fleet_logs {
        struct collector collector;
        const char *run;
        const char *host, *worker; /* NULL: any; worker: "SLICE/N" or "N" */
        unsigned limit;            /* the newest lines to begin with */
        bool follow;
};
/* Until all is shown, or with follow until interrupted. The exit code. */
int fleet_logs_show(const struct fleet_logs *l, FILE *out);
