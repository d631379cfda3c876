/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The lines of a run as tpu-launchd has them of this host; tpuctl why shows the last ones, too. */
#include "ask.h"

/* Prints the last so many; the exit code, after saying what is wrong. */
int logs_show_here(const struct options *o, const char *run, unsigned long last);
/* The same as a list of texts: as many of the last as one answer holds (256 KiB). NULL with problem set. */
json_t *logs_take_here(const struct options *o, const char *run, unsigned last, struct problem *problem);
/* The same of what was kept of it at its end, whole: "libtpu" or "core" (LinesRequest.kept). */
json_t *logs_take_kept(const struct options *o, const char *run, const char *kept, struct problem *problem);
