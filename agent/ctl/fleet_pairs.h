/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tpuctl fleet pairs SLICE: has the bandwidth between the hosts of a slice measured, and shows it. */
#include "ctl.h"

#define PAIRS_SUMMARY "the bandwidth between the hosts of a slice, where nothing runs; names slow hosts"

int fleet_pairs(const struct ctl *c, int argc, char *argv[]);
