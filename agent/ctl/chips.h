/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The one call that is not its verb: what tpuctl chips prints, for tpuctl top, too. */
#include "options.h"

/* Asks and prints. The exit code. */
int chips_print(const struct options *o, bool json);
