/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Saved captures: tpu-stack's output as JSON (docs/stack.md), alone or with what docs/diagnose.md
 * says of the host around it. It fills c and t, which the caller initialises and clears, also on failure. t
 * may hold other captures already. What is not known of the host stays as host_capture_init() left it.
 * -EPROTO with why (which field), -E2BIG, -ENOMEM. Unknown keys are not looked at.
 */
#include <jansson.h>

#include "host_capture.h"

#define CAPTURE_WHY_MAX 160u

/* One object. */
int capture_json_read(const json_t *object, struct host_capture *c, struct stack_table *t,
                      char why[static CAPTURE_WHY_MAX]);
