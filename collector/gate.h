/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What control answers and this collector cannot, because another leads (307) or nobody does (503): for the whole API, in front of it. */
#include "api.h"

/* True: the reply is complete. */
bool gate_handle(const struct api *a, const struct http_request *q, struct http_reply *reply);
