/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What this collector cannot answer because another leads (307, 503), or because it does not keep control or
 * telemetry (404): decided here for the whole API, in front of it.
 */
#include "api.h"

/* True: the reply is complete. */
bool gate_handle(const struct api *a, const struct http_request *q, struct http_reply *reply);
