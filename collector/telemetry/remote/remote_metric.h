/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What kind of metric a series of the store is, which keeps no kinds: that of an agent's metrics is known by
 * name. Inside the room only. Pure. */
#include "probe.h"
#include "store_handover.h"

#define AGENT_SERVICE "tpu-hostd"

/*
 * The metric of an agent's series; *ret_part: "count" and "sum" of a histogram, else "". NULL: this program
 * knows none of that name, or it is of another sender, whose kinds nobody knows.
 */
const struct metric_def *remote_metric_of(const struct handed_series *one, const char **ret_part);
