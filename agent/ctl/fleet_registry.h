/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * tpuctl fleet slices | cordon | drain | uncordon | observe | repair | release: the collector's registry
 * (docs/registry.md).
 */
#include "ctl.h"

/* Whether the word behind "fleet" is one of these; *ret: the exit code. */
bool fleet_registry(const struct ctl *c, int argc, char *argv[], int *ret);
