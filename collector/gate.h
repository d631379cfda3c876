/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What control answers and this collector cannot: because another leads, 307 to the same URL there, or because
 * nobody does, 503.
 */
#include "api.h"

void gate_go_to_leader(const struct api *a, const struct http_request *q, struct http_reply *reply);
