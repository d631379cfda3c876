/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * POST /v1/runs and DELETE /v1/runs/NAME: a run of this host, asked of tpu-launchd, to which we are
 * principal remote. Runs over slices are asked of a collector: refused here, with that. Starting and
 * stopping is for those who may order only: what is asked of us here has no other credentials than ours.
 */
#include "part.h"

extern const struct part_route run_calls[]; /* of the part "member" */
