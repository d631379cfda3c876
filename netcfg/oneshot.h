/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The one-shots. Each prints its report (text, or JSON with the same content) and returns the exit code. */
#include "pass.h"

int oneshot_dry_run(struct netcfg *n, bool json);
int oneshot_once(struct netcfg *n, bool json);
int oneshot_restore(struct netcfg *n, bool json);
/* Writes parameters of kernel modules and nothing else; prints nothing. */
int oneshot_parameters(struct netcfg *n);
