/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The lines of a run of this host that no systemd runs: a file of tpu-launchd's (--units direct), which its
 * user and root read. Its oldest lines may be gone (a hole at its beginning); a new start of the run is a
 * new file under the same name.
 */
#include "base.h"

/* Whether there is such a file: then the journal knows nothing of the run. */
bool log_file_exists(const char *root, const char *name);
/*
 * Prints it, or its newest lines (UINT64_MAX: all of it), and goes on with what is written if follow says
 * so: then it returns only when it cannot be read any more. An exit code; what is wrong was said.
 */
int log_file_show(const char *root, const char *name, uint64_t lines, bool follow);
