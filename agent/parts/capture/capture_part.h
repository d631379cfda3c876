/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that takes captures of runs: for a diagnosis over the hosts of a run, when the registry's record
 * capture/SLICE asks or this host suspects a run that no registry sees to (capture_rounds.h); and for
 * callers. POST /v1/runs/NAME/capture answers with the text of a run's Python stacks once its record is
 * durable; POST /v1/captures answers with a capture as it is diagnosed, and GET /v1/captures with the last
 * ones of this host. tpu-launchd takes all of them.
 */
#include "part.h"

extern const struct part capture_part;
