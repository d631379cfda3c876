/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The lines of a run as tpu-launchd has them of this host; tpuctl why shows the last ones, too. */
#include "ask.h"

/* Prints the last so many; the exit code, after saying what is wrong. */
int logs_show_here(const struct options *o, const char *run, unsigned long last);
