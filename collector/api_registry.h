/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The registry for people and control planes (docs/registry.md): slices, runs, orders, the fleet's mode. What acts needs the
 * right to (AllowActors=), and leaves an event tpu.api.acted: who, what, when, result.
 */
#include "api.h"

#define API_REGISTRY_PATHS \
        "/api/v1/hosts/NAME/orders, /api/v1/hosts/NAME/mode, /api/v1/hosts/NAME/cordon, /api/v1/hosts/NAME/drain, " \
        "/api/v1/slices/NAME, /api/v1/slices/NAME/slots/WORKER, /api/v1/slices/NAME/capture, " \
        "/api/v1/slices/NAME/diagnosis, /api/v1/slices/NAME/captures, /api/v1/slices/NAME/episodes, /api/v1/runs, /api/v1/runs/NAME, /api/v1/runs/NAME/logs, " \
        "/api/v1/mode"

/* False: the path is none of these. */
bool api_registry_handle(const struct api *a, const struct http_request *q, struct http_reply *reply);
/* A slice's gang for the list of slices; null when the registry does not know it. */
json_t *api_slice_gang(const struct api *a, const char *slice);
